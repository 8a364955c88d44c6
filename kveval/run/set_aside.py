"""Takes answers out of a run that nobody can vouch for. They are kept beside it, and a resumed run asks again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from kveval.run.directory import RunDirectory
from kveval.run.storage import storage

FOLDER = "set_aside"


class AnswersSince:
    """The answers of one variant that were written after some moment: all lines after the ends its files had then."""

    def __init__(self, run: RunDirectory, variant: str) -> None:
        self._run = run
        paths = (run.records_path(variant), run.cold_path(variant), run.sentinels_path(variant))
        self._ends = {path: path.stat().st_size if path.exists() else 0 for path in paths}

    def set_aside(self) -> int:
        """Moves the answers to ``set_aside/``. Returns how many there were."""
        return sum(self._move(path, end) for path, end in self._ends.items())

    def _move(self, path: Path, end: int) -> int:
        if not path.exists():
            return 0
        to = self._run.path / FOLDER / path.relative_to(self._run.path)
        with storage(to), path.open("rb+") as file:
            file.seek(end)
            lines = file.read().splitlines(keepends=True)
            if lines:
                to.parent.mkdir(parents=True, exist_ok=True)
                _append(to, lines)
                file.truncate(end)
        return len(lines)


def _append(path: Path, lines: Iterable[bytes]) -> None:
    with path.open("ab") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
