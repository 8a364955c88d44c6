"""Judges a run for `kveval gate` and `bless`, and writes the files for CI."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kveval.config.read import load_config
from kveval.errors import (
    ConfigError,
    FileAccessError,
    InfrastructureError,
    InternalError,
    KvevalError,
    RunDirectoryError,
    StorageError,
)
from kveval.judge.blessed.bless import bless
from kveval.judge.gate.gate import Gate, gate
from kveval.judge.run_data import check_policy, with_overrides
from kveval.report.documents.verdict import no_verdict, verdict
from kveval.report.files.junit import junit, junit_of_error
from kveval.report.files.markdown import markdown, markdown_of_error
from kveval.run.storage import storage, to_json, write_atomically


@dataclass(frozen=True, slots=True)
class Decision:
    """A judged run, its ``verdict.json``, and the folder with the files."""

    gate: Gate
    document: dict[str, Any]
    folder: Path


def decide(
    run: Path, *, against: Path | None, config: str | None, overrides: Mapping[str, Any], out: Path | None
) -> Decision:
    """Judges `run` and writes junit.xml, summary.md and verdict.json into `out`, the run directory by default.

    It also writes them if nothing could be judged, so that no older verdict is left standing. For `config` and
    `overrides`, see `policy_given`. A mistake in them is the caller's, and writes nothing.

    Raises:
        ConfigError: `config` or `overrides` are wrong.
        KvevalError: nothing could be judged; see `kveval.judge.gate.gate`.
        InternalError: kveval itself failed, which says nothing about the run.
    """
    folder = out or run
    policy = policy_given(config, overrides)
    try:
        with _own_failures(run):
            judged = gate(run, against=against, overrides=policy)
            document, junit_xml, summary_md = verdict(judged), junit(judged), markdown(judged)
    except KvevalError as error:
        is_callers = bool(policy) and isinstance(error, ConfigError)
        if not is_callers and (out is not None or _holds_a_run(run)):
            with contextlib.suppress(StorageError):
                _write(folder, no_verdict(error, str(run)), junit_of_error(error), markdown_of_error(error))
        raise
    _write(folder, document, junit_xml, summary_md)
    return Decision(judged, document, folder)


def _holds_a_run(folder: Path) -> bool:
    """Whether a folder holds a run, or what is left of one. Nothing is written into any other."""
    return any((folder / name).exists() for name in ("manifest.json", "records", "verdict.json"))


@contextlib.contextmanager
def _own_failures(run: Path) -> Iterator[None]:
    """Turns a crash of kveval into an InternalError, so that the files for CI say that nothing was judged."""
    try:
        yield
    except KvevalError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise FileAccessError(f"{error.filename or run}: cannot be used ({os.strerror(error.errno)})") from error
        raise InternalError(f"{run}: kveval itself failed: {type(error).__name__}: {error}") from error


def policy_given(config: str | None, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys that replace those of the run's policy: those of the sweep configuration, then `overrides`.

    Raises:
        ConfigError: a key or value is wrong.
    """
    given = with_overrides(load_config(config).judge.model_dump() if config else {}, overrides)
    return check_policy(given).model_dump(exclude_unset=True)


def bless_run(run: Path, out: Path) -> Gate:
    """Writes the blessed file of `run`, and returns how the run itself is judged. A failing run may be blessed.

    Raises:
        InfrastructureError: a variant did not run to its end, or too many of its samples have no answer.
        KvevalError: the run cannot be judged.
    """
    judged = gate(run)
    broken = next((check for check in judged.checks if check.state == "infrastructure"), None)
    if broken:
        raise InfrastructureError(f"{run}: not blessed: {broken.reason}")
    if out.is_dir():
        raise RunDirectoryError(f"--out {out}: is a folder; use a file to write, such as {out}/blessed.json")
    with storage(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    bless(judged.run, judged.policy, out)
    return judged


def _write(folder: Path, document: dict[str, Any], junit_xml: str, summary_md: str) -> None:
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "verdict.json", to_json(document, indent=1) + "\n")
    write_atomically(folder / "junit.xml", junit_xml)
    write_atomically(folder / "summary.md", summary_md)
