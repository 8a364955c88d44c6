"""What earlier runs of a model say about the number of questions per haystack."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kveval.errors import KvevalError, RunDirectoryError
from kveval.measure.questions.costs import measured_prefills
from kveval.run.directory import RunDirectory
from kveval.run.manifest import Manifest

_CONFIG = "model/config.json"


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A complete run of the same model."""

    run: RunDirectory
    manifest: Manifest

    def questions(self, task: str, context_length: int) -> int | None:
        """Returns how many questions share a haystack of a cell. None if the run has no such cell."""
        for one in self.manifest.questions_per_haystack:
            if (one.task, one.context_length) == (task, context_length):
                return one.questions
        config = self.manifest.config
        for entry in config.get("tasks") or []:
            if entry.get("name") != task or entry.get("file") is not None:
                continue
            number = entry.get("questions_per_haystack") or config.get("questions_per_haystack")
            lengths = entry.get("context_lengths") or config.get("context_lengths") or []
            if context_length in lengths and isinstance(number, int):
                return number
        return None


def runs_of_model(folder: Path | None, model: Path, *, without: Path | None) -> list[EarlierRun]:
    """Returns the complete runs of a model in `folder`, which may be a run itself, the newest first.

    Args:
        without: the run that is planned.
    """
    wanted = config_sha256(model)
    if folder is None or wanted is None:
        return []
    paths = [folder] if RunDirectory(folder).exists() else [one.parent for one in folder.glob("*/manifest.json")]
    found = []
    for path in paths:
        if without is not None and path.resolve() == without.resolve():
            continue
        with contextlib.suppress(RunDirectoryError):
            manifest = RunDirectory(path).read_manifest()
            if manifest.inputs.get(_CONFIG) == wanted and manifest.status == "complete":
                found.append(EarlierRun(RunDirectory(path), manifest))
    return sorted(found, key=lambda one: (one.manifest.created, str(one.run.path)), reverse=True)


def newest_costs(runs: Iterable[EarlierRun]) -> tuple[Mapping[int, float], Path | None]:
    """Returns what a prefill cost in the newest run that says it, by context length, and where that run is."""
    for one in runs:
        with contextlib.suppress(KvevalError):
            if costs := measured_prefills(one.run, one.manifest):
                return costs, one.run.path
    return {}, None


def config_sha256(model: Path) -> str | None:
    """Returns what tells a model from others: the sha256 of its config.json. None without one."""
    try:
        return hashlib.sha256((model / "config.json").read_bytes()).hexdigest()
    except OSError:
        return None
