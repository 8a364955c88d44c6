"""The gate as a command sees it: judge, write three files, show a table."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kveval.config.sweep import load_config
from kveval.errors import InfrastructureError, KvevalError, RunDirectoryError, StorageError
from kveval.judge.blessed.bless import bless
from kveval.judge.gate.gate import Gate, gate
from kveval.report.files.junit import junit, row_name
from kveval.report.files.markdown import markdown
from kveval.report.files.verdict import no_verdict, verdict
from kveval.report.rows import attribution_label, difference_label
from kveval.report.terminal.summary import storage_label
from kveval.report.text import visible
from kveval.run.storage import storage, to_json, write_atomically

STYLES = {
    "pass": "bold green", "regression": "bold red", "infrastructure": "bold magenta", "undecided": "bold yellow",
}  # fmt: skip
_MOST_CELLS = 8


@dataclass(frozen=True, slots=True)
class Decision:
    document: dict[str, Any]
    table: RenderableType
    folder: Path


def decide(
    run: Path, *, against: Path | None, config: str | None, overrides: Mapping[str, Any], out: Path | None
) -> Decision:
    """Judges `run` and writes junit.xml, summary.md and verdict.json into `out`, the run directory by default.

    They are written too when nothing could be judged, so that no older verdict is left standing.

    Args:
        config: a sweep configuration whose policy replaces the run's.
        overrides: keys of the policy, over either.

    Raises:
        KvevalError: nothing could be judged; see `kveval.judge.gate.gate`.
        InfrastructureError: kveval itself failed, which says nothing about the run.
        StorageError: the files cannot be written.
    """
    folder = out or run
    try:
        document = verdict(gate(run, against=against, overrides=policy_given(config, overrides)))
    except KvevalError as error:
        _withdraw(run, out, error)
        raise
    except Exception as error:
        # Python's own exit code for a crash is the one of a regression.
        traceback.print_exc()
        broken = InfrastructureError(f"{run}: kveval itself failed: {type(error).__name__}: {error}")
        _withdraw(run, out, broken)
        raise broken from error
    _write(folder, document)
    return Decision(document, render(document), folder)


def policy_given(config: str | None, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """What replaces keys of the run's own policy: that of the sweep configuration `config`, changed by `overrides`.

    Raises:
        ConfigError: the configuration cannot be read.
    """
    policy = load_config(config).judge.model_dump() if config else {}
    policy |= {key: value for key, value in overrides.items() if key != "margins"}
    if "margins" in overrides:
        policy["margins"] = {**policy.get("margins", {}), **overrides["margins"]}
    return policy


def _withdraw(run: Path, out: Path | None, error: KvevalError) -> None:
    if out is not None or run.is_dir():
        with contextlib.suppress(StorageError):
            _write(out or run, no_verdict(error, str(run)))


def bless_run(run: Path, out: Path) -> Gate:
    """Writes the blessed file of `run` and returns how the run itself is judged; a failing run may be blessed.

    Raises:
        InfrastructureError: a variant did not run to its end, or too many of its samples have no answer.
        KvevalError: the run cannot be judged.
    """
    decision = gate(run)
    broken = next((check for check in decision.checks if check.state == "infrastructure"), None)
    if broken:
        raise InfrastructureError(f"{run}: not blessed: {broken.reason}")
    if out.is_dir():
        raise RunDirectoryError(f"--out {out}: is a folder; allowed: a file to write, such as {out}/blessed.json")
    with storage(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    bless(decision.run, decision.policy, out)
    return decision


def _write(folder: Path, document: dict[str, Any]) -> None:
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "verdict.json", to_json(document, indent=1) + "\n")
    write_atomically(folder / "junit.xml", junit(document))
    write_atomically(folder / "summary.md", markdown(document))


def render(document: dict[str, Any]) -> RenderableType:
    """What `kveval.report.files.verdict` returns, for a terminal."""
    state = document["verdict"]
    parts: list[RenderableType] = []
    for check in document["checks"]:
        parts += _check(document, check)
    cells = [(check, row) for check in document["checks"] for row in check["rows"] if row["level"] == "cell"]
    worst = sorted(
        (pair for pair in cells if (pair[1]["delta"] or 0.0) < 0), key=lambda pair: pair[1]["delta"] or 0.0
    )[:_MOST_CELLS]  # fmt: skip
    if worst:
        parts += [Text("\nworst cells", style="bold"), _cells(worst)]
    for note in document["notes"]:
        parts.append(Text(f"{note['level']}: {visible(note['message'])}", style="yellow"))
    end = Text.assemble("\n", "gate: ", (state, STYLES[state]), f", exit code {document['exit_code']}")
    if state == "undecided" and document["exit_code"] == 0:
        end.append(" (the policy lets through what stays open)")
    return Stack(*parts, end)


def _check(document: dict[str, Any], check: dict[str, Any]) -> Iterator[RenderableType]:
    described = document["variants"].get(check["variant"])
    label = storage_label(described) if described else ""
    saving = ", no memory saved" if check["emulated"] else ""
    overall = next((row for row in check["rows"] if row["level"] == "overall"), None)
    yield Text.assemble(
        (f"{check['verdict']:<15}", STYLES[check["verdict"]]),
        (visible(check["variant"]), "bold"),
        (f"  {visible(label)}{saving}" if label else "", "dim"),
    )
    against = f" against {check['against']}" if check["against"] else ""
    delta = f", {difference_label(overall)} points" if overall and overall["n"] else ""
    yield _indented(f"{check['kind']}{against}{delta}: {check['reason']}")
    if overall and overall["attribution"]:
        source = f"; it comes from the {check['loss_comes_from']}" if check["loss_comes_from"] else ""
        yield _indented(attribution_label(overall["attribution"]) + source)


def _indented(text: str) -> Padding:
    return Padding(Text(visible(text)), (0, 0, 0, 15))


def _cells(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for check, row in pairs:
        table.add_row(
            Text(row["verdict"]),
            Text(visible(check["variant"]) + (" (emulated)" if check["emulated"] else "")),
            Text(check["kind"]),
            Text(visible(row_name(row))),
            Text(difference_label(row)),
            Text(f"{row['lost']}/{row['gained']}"),
        )
    return table
