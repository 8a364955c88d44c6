"""The run directory: the only thing measuring and judging share.

::

    RUN/
      manifest.json           what was run, on what, and how it ended; written before the first request
      samples.jsonl           one line per sample, equal for every variant; prompts are rebuilt, not stored
      records/VARIANT.jsonl   one line per answer, appended as it arrives
      cold/VARIANT.jsonl      some of them once more, without the prefix cache
      sentinels/VARIANT.jsonl questions from the start, asked again later; they enter no score
      divergence/             what every variant said along the same texts
      load.json               what every server did under load
      records.parquet         all records, once the run is over
      engine/VARIANT.log      what the engine printed
      report.html
      lock                    held by the sweep that writes here

All JSON is strict (no NaN, no Infinity). Everything read back is untrusted and validated.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeVar

from pydantic import ValidationError

from kveval.errors import RunDirectoryError
from kveval.run.manifest import SCHEMA_VERSION, Manifest
from kveval.run.records import Record, SampleRow, SentinelRecord
from kveval.run.storage import first_problem, storage, to_json, whole_lines_bytes, write_atomically

_R = TypeVar("_R", bound=Record)


class RunDirectory:
    """A run on disk. Writing needs the lock, reading does not.

    Example:
        with RunDirectory(path).locked() as run:
            run.write_manifest(manifest)
            run.append(record)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None
        self._appending: dict[Path, BinaryIO] = {}

    @property
    def manifest_path(self) -> Path:
        return self.path / "manifest.json"

    @property
    def samples_path(self) -> Path:
        return self.path / "samples.jsonl"

    def records_path(self, variant: str) -> Path:
        return self.path / "records" / f"{variant}.jsonl"

    def cold_path(self, variant: str) -> Path:
        return self.path / "cold" / f"{variant}.jsonl"

    def sentinels_path(self, variant: str) -> Path:
        return self.path / "sentinels" / f"{variant}.jsonl"

    def engine_log_path(self, variant: str) -> Path:
        return self.path / "engine" / f"{variant}.log"

    def exists(self) -> bool:
        return self.manifest_path.is_file()

    def check_usable(self, *, resume: bool) -> None:
        """Raises RunDirectoryError if a sweep may not write here: only a resumed one may go on with a run."""
        if self.path.exists() and not self.path.is_dir():
            raise RunDirectoryError(f"--out {self.path}: is a file; use: an empty or new folder")
        if self.exists():
            if not resume:
                raise RunDirectoryError(
                    f"--out {self.path}: holds a run already; use: an empty or new folder, or --resume to go on with it"
                )
        elif any(self.path.glob("records/*.jsonl")):
            raise RunDirectoryError(
                f"--out {self.path}: holds answers in records/ but no manifest.json that says what was asked; "
                "use: an empty or new folder"
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[RunDirectory]:
        """Creates the folder if needed, and locks it for writing.

        Raises:
            RunDirectoryError: another process writes here.
            StorageError: the folder cannot be made.
        """
        with storage(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / "lock").open("a+", encoding="utf-8")
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                lock.seek(0)
                owner = lock.read(200).strip() or "unknown"
                raise RunDirectoryError(
                    f"--out {self.path}: another sweep (process {owner}) is writing here; "
                    "wait for it or choose another folder"
                ) from error
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            self._lock = lock
            with storage(self.path):
                (self.path / "records").mkdir(exist_ok=True)
                (self.path / "engine").mkdir(exist_ok=True)
            yield self
        finally:
            for file in self._appending.values():
                file.close()
            self._appending.clear()
            self._lock = None
            lock.close()

    def read_manifest(self) -> Manifest:
        """Returns the manifest. Raises RunDirectoryError if it is missing, broken, or made by a newer kveval."""
        try:
            data = json.loads(self.manifest_path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            what = "not a run directory (it has no manifest.json)"
            if (self.path / "load.json").is_file():
                what = "holds a load measurement alone (load.json); a report needs answers: `kveval sweep` into it"
            raise RunDirectoryError(f"{self.path}: {what}") from None
        except (OSError, ValueError, RecursionError) as error:
            raise RunDirectoryError(f"{self.manifest_path}: not readable as JSON: {error}") from error
        version = data.get("schema_version") if isinstance(data, Mapping) else None
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise RunDirectoryError(
                f"{self.manifest_path}: schema_version {version} is newer than this kveval reads "
                f"({SCHEMA_VERSION}); update kveval"
            )
        try:
            return Manifest.model_validate(data)
        except ValidationError as error:
            raise RunDirectoryError(f"{self.manifest_path}: {first_problem(error)}") from error

    def write_manifest(self, manifest: Manifest) -> None:
        write_atomically(self.manifest_path, to_json(manifest, indent=1) + "\n")

    def write_samples(self, rows: Iterable[SampleRow]) -> None:
        write_atomically(self.samples_path, "".join(to_json(row) + "\n" for row in rows))

    def samples(self) -> Iterator[SampleRow]:
        """Yields every sample of the run. Raises RunDirectoryError if a line is broken."""
        yield from _read_lines(self.samples_path, SampleRow, torn_tail=False)

    def records(self, variant: str) -> Iterator[Record]:
        """Yields the records of one variant in the order they arrived; of each sample only the last one.

        A torn last line, left by a killed process, is skipped. Raises RunDirectoryError for any other broken line.
        """
        yield from _latest(self.records_path(variant))

    def cold_records(self, variant: str) -> Iterator[Record]:
        """Yields the records of answers that were given without the prefix cache."""
        yield from _latest(self.cold_path(variant))

    def sentinel_records(self, variant: str) -> Iterator[SentinelRecord]:
        """Yields every sentinel in the order they were answered, the same sample as often as it was asked."""
        yield from _of_variant(self.sentinels_path(variant), SentinelRecord)

    def append(self, record: Record) -> None:
        """Appends one record. It survives if this process is killed, and so do the others if the disk is full."""
        self._append(self.records_path(record.variant), record)

    def append_cold(self, record: Record) -> None:
        """Appends one record of an answer that was given without the prefix cache."""
        self._append(self.cold_path(record.variant), record)

    def append_sentinel(self, record: SentinelRecord) -> None:
        """Appends one answer to a question that was asked again."""
        self._append(self.sentinels_path(record.variant), record)

    def _append(self, path: Path, record: Record) -> None:
        line = (to_json(record) + "\n").encode()
        with storage(path):
            file = self._appending.get(path)
            if file is None:
                path.parent.mkdir(exist_ok=True)
                _drop_torn_tail(path)
                # Unbuffered: what a full disk refused must not be written later, after another record.
                file = self._appending[path] = path.open("ab", buffering=0)
            size = os.fstat(file.fileno()).st_size
            try:
                _write_all(file, line)
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(size)
                raise

    def write_parquet(self, variants: Iterable[str]) -> Path:
        """Writes ``records.parquet`` from the JSON Lines of the named variants."""
        import pandas as pd

        path = self.path / "records.parquet"
        rows = [record.model_dump(mode="json") for variant in variants for record in self.records(variant)]
        frame = pd.DataFrame(rows, columns=list(Record.model_fields))
        for column in ("metrics", "error", "expected", "expected_error"):
            frame[column] = [None if value is None else to_json(value) for value in frame[column]]
        temporary = path.with_suffix(".parquet.tmp")
        with storage(path):
            frame.to_parquet(temporary, index=False)
            temporary.replace(path)
        return path


def _latest(path: Path) -> Iterator[Record]:
    latest: dict[str, Record] = {}
    for record in _of_variant(path, Record):
        latest.pop(record.sample_id, None)
        latest[record.sample_id] = record
    yield from latest.values()


def _of_variant(path: Path, model: type[_R]) -> Iterator[_R]:
    """Raises RunDirectoryError if a line is broken, or belongs to another variant than the file."""
    for record in _read_lines(path, model, torn_tail=True):
        if record.variant != path.stem:
            raise RunDirectoryError(
                f"{path}: holds a record of variant {record.variant!r} (sample {record.sample_id}); "
                f"use: only records of {path.stem!r}"
            )
        yield record


def _read_lines(path: Path, model: type[Any], *, torn_tail: bool) -> Iterator[Any]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for number, line in enumerate(file, start=1):
            if torn_tail and not line.endswith(b"\n"):
                return
            try:
                yield model.model_validate_json(line)
            except ValidationError as error:
                way_on = "; use: kveval sweep --resume, which asks this question again" if torn_tail else ""
                raise RunDirectoryError(f"{path}:{number}: {first_problem(error)}{way_on}") from error


def _write_all(file: BinaryIO, data: bytes) -> None:
    """Writes all of `data`: a nearly full disk may take a part of it first."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _drop_torn_tail(path: Path) -> None:
    """Removes an unfinished last line, so that the next record starts on a new line."""
    if path.exists() and (keep := whole_lines_bytes(path)) != path.stat().st_size:
        os.truncate(path, keep)
