"""Takes answers out of a run that nobody can vouch for. They are kept beside it, and a resumed run asks again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from kveval.run.directory import RunDirectory
from kveval.run.divergence import DivergenceFolder
from kveval.run.records import Record, SentinelRecord, samples_without_record
from kveval.run.storage import storage, whole_lines_bytes, write_atomically

FOLDER = "set_aside"


class AnswersSince:
    """What one variant said after some moment: all lines after the ends its files had then, and newer readings."""

    def __init__(self, run: RunDirectory, variant: str) -> None:
        self._run = run
        self._variant = variant
        paths = (run.records_path(variant), run.cold_path(variant), run.sentinels_path(variant))
        # The next answer replaces an unfinished last line.
        self._ends = {path: whole_lines_bytes(path) for path in paths}
        self._readings = DivergenceFolder(run.path)
        self._known = self._readings.written(variant)

    def set_aside(self) -> int:
        """Moves the answers to ``set_aside/``, and what the variant said along texts. Returns how many answers."""
        for path, version in self._readings.written(self._variant).items():
            if self._known.get(path) != version:
                to = self._run.path / FOLDER / path.relative_to(self._run.path)
                with storage(to):
                    to.parent.mkdir(parents=True, exist_ok=True)
                    path.replace(to)
        return sum(self._move(path, end) for path, end in self._ends.items())

    def _move(self, path: Path, end: int) -> int:
        if not path.exists():
            return 0
        to = self._run.path / FOLDER / path.relative_to(self._run.path)
        with storage(to), path.open("rb+") as file:
            file.seek(end)
            lines = [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
            if lines:
                to.parent.mkdir(parents=True, exist_ok=True)
                _append(to, lines)
                file.truncate(end)
        return len(lines)


def set_broken_lines_aside(run: RunDirectory, variant: str, asked: Iterable[str]) -> Iterator[str]:
    """Moves the lines of a variant's files that hold no answer, as a power cut leaves them, to ``set_aside/broken/``.

    Yields what was moved, as a sentence for each file, and which of the samples `asked` have no record now.
    """
    files: dict[Path, type[Record]] = {
        run.records_path(variant): Record,
        run.cold_path(variant): Record,
        run.sentinels_path(variant): SentinelRecord,
    }
    is_broken = False
    for path, model in files.items():
        numbers = _set_broken_aside(run, path, model) if path.exists() else []
        if numbers:
            lines = ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")
            what = "line that holds" if len(numbers) == 1 else "lines that hold"
            yield f"{path}: {len(numbers)} {what} no answer ({lines}) moved to {FOLDER}/broken/; they are asked again"
            is_broken = True
    if is_broken:
        yield samples_without_record(asked, (record.sample_id for record in run.records(variant)))


def _set_broken_aside(run: RunDirectory, path: Path, model: type[Record]) -> list[int]:
    with path.open("rb") as file:
        lines = list(file)
    whole = [_is_whole(line, model) for line in lines]
    # A last line without its end is what every killed process leaves. The next answer replaces it.
    broken = [at for at, line in enumerate(lines) if not whole[at] and line.endswith(b"\n")]
    if broken:
        to = run.path / FOLDER / "broken" / path.relative_to(run.path)
        with storage(to):
            to.parent.mkdir(parents=True, exist_ok=True)
            _append(to, (lines[at] for at in broken))
        write_atomically(path, b"".join(line for at, line in enumerate(lines) if whole[at]).decode())
    return [at + 1 for at in broken]


def _is_whole(line: bytes, model: type[Record]) -> bool:
    try:
        model.model_validate_json(line)
    except ValidationError:
        return False
    return line.endswith(b"\n")


def _append(path: Path, lines: Iterable[bytes]) -> None:
    with path.open("ab") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
