"""Two runs or variants side by side, in a terminal and as a plain document."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kveval.judge.blessed.bless import load_blessed
from kveval.judge.diff.answer_diff import VariantDiff, diff_answers
from kveval.judge.diff.answer_set import AnswerSet, read_answer_set
from kveval.judge.evidence.drift import drift_positions, summarize
from kveval.judge.run_data import check_same_scorers
from kveval.report.files.junit import row_name
from kveval.report.rows import comparison_row, difference_label
from kveval.report.text import visible
from kveval.run.directory import RunDirectory

_STYLES = {"pass": "green", "fail": "bold red", "undecided": "yellow"}
DIFF_VERSION = 1


def compare(first: str, second: str) -> dict[str, Any]:
    """`second` against `first`: ``{version, first, second, pairs}``, a row per group in each pair.

    Raises:
        KvevalError: one cannot be read, or they cannot be compared.
    """
    sources = read_answer_set(first), read_answer_set(second)
    both = set(sources[0].samples["task"]) & set(sources[1].samples["task"])
    check_same_scorers(_inputs(sources[0]), _inputs(sources[1]), both, f"{first} and {second}")
    return {
        "version": DIFF_VERSION,
        "first": first,
        "second": second,
        "pairs": [_pair(*sources, pairing) for pairing in diff_answers(*sources)],
    }


def _inputs(source: AnswerSet) -> Mapping[str, str]:
    path = Path(source.name.removesuffix(f":{source.variant}") if source.variant else source.name)
    return load_blessed(path).run.inputs if path.is_file() else RunDirectory(path).read_manifest().inputs


def _pair(first: AnswerSet, second: AnswerSet, pairing: VariantDiff) -> dict[str, Any]:
    drift = None
    if first.has_outputs and second.has_outputs:
        positions = drift_positions(first.records[pairing.first], second.records[pairing.second], second.samples.index)
        drift = summarize(positions, second.samples["haystack_id"])
    return {
        "first": pairing.first,
        "second": pairing.second,
        "emulated": list(pairing.emulated),
        "changed_facts": {name: list(values) for name, values in pairing.changed_facts.items()},
        "rows": [{"margin": row.verdict.margin if row.verdict else None, **comparison_row(row)}
                 for row in pairing.comparisons],
        "drift": {
            "positions": drift.positions, "kl_mean_at_least": drift.kl_mean, "kl_max_at_least": drift.kl_max,
            "same_top1": drift.same_top1, "token_p_change": drift.token_p_change,
        } if drift else None,
    }  # fmt: skip


def render(document: dict[str, Any]) -> RenderableType:
    """`compare` for a terminal."""
    parts: list[RenderableType] = []
    for pair in document["pairs"]:
        names = [
            visible(pair[side]) + (" (emulated)" if emulated else "")
            for side, emulated in zip(("first", "second"), pair["emulated"], strict=True)
        ]
        parts.append(
            Text(f"{names[1]} of {document['second']} against {names[0]} of {document['first']}", style="bold")
        )
        parts.append(_table(pair["rows"]))
        if pair["drift"]:
            drift = pair["drift"]
            parts.append(
                Text(
                    f"drift over {drift['positions']:,} positions: KL at least {drift['kl_mean_at_least']:.4g} nats, "
                    f"same top token {drift['same_top1']:.1%}"
                )
            )
        for name, values in pair["changed_facts"].items():
            was, now = ("none" if value is None else value for value in values)
            parts.append(Text(visible(f"{name}: {was} -> {now}"), style="yellow"))
        parts.append(Text())
    return Stack(*parts)


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    for no_wrap in (False, *[True] * 7):
        table.add_column(no_wrap=no_wrap, overflow="fold")
    header = ("", "n", "before", "after", "delta", "flips-/+", "same", "p (Holm)")
    table.add_row(*(Text(heading, style="underline") for heading in header))
    for row in rows:
        unanswered = f" of {row['asked']}" if row["n"] < row["asked"] else ""
        scores = ["" if row[key] is None else f"{row[key]:.3f}" for key in ("baseline_score", "score")]
        table.add_row(
            Text(visible(row_name(row))), Text(f"{row['n']}{unanswered}"), Text(scores[0]), Text(scores[1]),
            Text(difference_label(row)), Text(f"{row['lost']}/{row['gained']}"),
            Text("" if row["identical"] is None else f"{row['identical']:.0%}"),
            Text("" if row["p_holm"] is None else f"{row['p_holm']:.2g}", style=_STYLES[row["verdict"]]),
        )  # fmt: skip
    return table
