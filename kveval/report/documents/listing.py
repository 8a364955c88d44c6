"""The runs of a folder: what each measured, and what the gate wrote of it. Judges nothing again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kveval.errors import RunDirectoryError
from kveval.judge.gate.check import WORST_LAST
from kveval.run.directory import RunDirectory
from kveval.run.manifest import Manifest

_OLDEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate wrote of a candidate or of a whole run.

    Attributes:
        state: pass, regression, ...; None where it is not judged, and `reason` says why.
    """

    state: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ListedRun:
    """One folder beside others.

    Attributes:
        problem: why it holds no run that can be read; all below is None or empty then.
        created: UTC, as ISO 8601.
        verdict: of the whole run, as the gate last wrote it.
        candidates: the same for each candidate.
        emulated: those of them whose format the engine did not store.
        size_bytes: on disk; None where it cannot be read.
    """

    name: str
    path: Path
    problem: str | None = None
    created: str | None = None
    status: str | None = None
    model: str | None = None
    baseline: str | None = None
    questions: int | None = None
    verdict: Verdict = Verdict(None, "no run")
    candidates: Mapping[str, Verdict] = field(default_factory=dict)
    emulated: tuple[str, ...] = ()
    size_bytes: int | None = None


def list_runs(folder: Path) -> list[ListedRun]:
    """Returns a line for each folder in `folder`, the newest run first and what is no run last.

    A folder that is a run itself is the only line.

    Raises:
        RunDirectoryError: there is no such folder, or it cannot be read.
    """
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        reason = "no such folder" if isinstance(error, FileNotFoundError) else os.strerror(error.errno or 0)
        raise RunDirectoryError(f"{folder}: {reason}; use: a folder that holds runs, such as runs") from None
    paths = [folder] if RunDirectory(folder).exists() else inside
    return sorted(map(_listed, paths), key=lambda run: (run.problem is None, _time(run.created)), reverse=True)


def _listed(path: Path) -> ListedRun:
    try:
        manifest = RunDirectory(path).read_manifest()
    except RunDirectoryError as error:
        said = str(error).removeprefix(f"{path}/").removeprefix(f"{path}: ")
        return ListedRun(path.absolute().name, path, said, size_bytes=_size(path))
    candidates = [name for name, variant in manifest.variants.items() if variant.role == "candidate"]
    verdict, of_variants = _verdicts(path, manifest, candidates)
    return ListedRun(
        name=path.absolute().name,
        path=path,
        created=manifest.created,
        status=manifest.status,
        model=_model(manifest.config.get("model")),
        baseline=manifest.baseline,
        questions=manifest.samples,
        verdict=verdict,
        candidates=of_variants,
        emulated=tuple(name for name in candidates if manifest.variants[name].facts.is_emulated),
        size_bytes=_size(path),
    )


def _verdicts(path: Path, manifest: Manifest, candidates: list[str]) -> tuple[Verdict, dict[str, Verdict]]:
    document, why_not = _written(path / "verdict.json", manifest)
    if document is None:
        none = Verdict(None, why_not)
        return none, dict.fromkeys(candidates, none)
    found: dict[str, list[str]] = {}
    for check in document.get("checks") or []:
        found.setdefault(str(check["variant"]), []).append(str(check["verdict"]))
    reason = document.get("reason")
    missing = Verdict(None, str(reason) if reason else "the gate did not compare it")
    of_variants = {
        name: Verdict(max(found[name], key=WORST_LAST.index)) if name in found else missing for name in candidates
    }
    return Verdict(str(document["verdict"]), None if reason is None else str(reason)), of_variants


def _written(file: Path, manifest: Manifest) -> tuple[dict[str, Any] | None, str | None]:
    """Returns what the gate wrote, or why that says nothing about the run as it is now."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        checks, run = document["checks"], dict(document["run"])
        known = document["verdict"] in (*WORST_LAST, "incomparable", "usage")
        if not known or any(check["verdict"] not in WORST_LAST or not check["variant"] for check in checks):
            return None, "verdict.json is not readable"
        is_newer = file.stat().st_mtime_ns >= file.with_name("manifest.json").stat().st_mtime_ns
    except FileNotFoundError:
        return None, "not judged"
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None, "verdict.json is not readable"
    same = {"run_id": manifest.run_id, "status": manifest.status, "samples": manifest.samples}
    # Of a run that could not be judged, the document says only where it is. A run that went on has a newer manifest.
    if not is_newer or any(run.get(key, value) != value for key, value in same.items()):
        return None, "judged before it changed"
    return document, None


def _model(configured: Any) -> str | None:
    return Path(configured).name or configured if isinstance(configured, str) else None


def _time(created: str | None) -> datetime:
    try:
        time = datetime.fromisoformat(created or "")
    except ValueError:
        return _OLDEST
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _size(path: Path) -> int | None:
    try:
        return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)
    except OSError:
        return None
