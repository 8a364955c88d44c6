"""Strict JSON and files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from kveval.errors import StorageError

_BLOCK_BYTES = 1 << 16


class Stored(BaseModel):
    """Base of everything that is written as JSON. What is read back is validated: it may come from anywhere."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def first_problem(error: ValidationError) -> str:
    """Returns where a document is wrong and why, on one line."""
    problem = error.errors(include_url=False)[0]
    return f"{'.'.join(str(part) for part in problem['loc']) or 'document'}: {problem['msg']}"


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Returns strict JSON, with numpy scalars as numbers. Raises ValueError for a NaN or an infinity."""

    def plain(item: Any) -> Any:
        if isinstance(item, np.generic):
            return item.item()
        if isinstance(item, np.ndarray):
            return item.tolist()
        if isinstance(item, BaseModel):
            return item.model_dump(mode="json")
        if isinstance(item, Path):
            return str(item)
        raise TypeError(f"{type(item).__name__} has no JSON form")

    return json.dumps(value, default=plain, allow_nan=False, ensure_ascii=True, indent=indent)


@contextlib.contextmanager
def storage(path: Path) -> Iterator[None]:
    """Turns errors of the disk under `path` into a StorageError of one readable line."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            # Some libraries raise OSError for errors that are not the operating system's.
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError(
                f"{path}: the disk is full; free some space and run the same command again, a sweep with --resume"
            ) from error
        raise StorageError(f"{path}: not writable ({os.strerror(error.errno)})") from error


def write_atomically(path: Path, text: str) -> None:
    """Writes `path` whole or not at all, even if the process is killed.

    What is there and no file, such as /dev/null or a pipe, is written to and stays what it is.
    """
    with storage(path):
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise


def whole_lines_bytes(path: Path) -> int:
    """Returns where the last whole line of a file ends. 0 if there is no such file."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        start = file.seek(0, os.SEEK_END)
        while start:
            end, start = start, max(start - _BLOCK_BYTES, 0)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
    return 0
