"""The border to the files of a model folder: whatever they hold, an error is one readable line."""

from __future__ import annotations

import contextlib
import json
import os
import re
import reprlib
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kveval.errors import ConfigError, KvevalError
from kveval.terminal import visible

# The largest config.json of a published model has less than 1 MB. A safetensors index has up to 50 MB.
_MOST_JSON_BYTES = 100_000_000
_MOST_REASON_CHARACTERS = 200
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_LFS_SIZE = re.compile(rb"^size (\d{1,15})$", re.MULTILINE)
MOST_POINTER_BYTES = 1024


class UnusableFileError(ValueError):
    """What is wrong with a file, worded to follow its path: "is not a JSON object"."""


@contextlib.contextmanager
def reading(path: Path, key: str = "model") -> Iterator[None]:
    """Turn every failure to read `path`, a file or folder of a model, into a ConfigError of one line.

    The files come from anywhere, and each library fails in its own way: tokenizers raises bare ``Exception`` and, out
    of Rust, ``PanicException``, which is not even an ``Exception``. A template of jinja2 raises what it likes.

    Args:
        path: what the message names.
        key: the key of the configuration, or the argument, that names the model.
    """
    try:
        yield
    except KvevalError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ConfigError(f"{key}: {printable(path)} {_reason(error)}") from error


def printable(value: object) -> str:
    """Return `value` as one line of text in which every control character is spelled out."""
    return visible(" ".join(str(value).splitlines()))


def shown(value: object) -> str:
    """Return a short form of a value that was read, for a message."""
    return reprlib.repr(value)


def _reason(error: BaseException) -> str:
    if isinstance(error, UnusableFileError):
        return str(error)
    if isinstance(error, RecursionError):
        return "cannot be read: it is nested too deeply"
    if isinstance(error, MemoryError):
        return "cannot be read: it needs more memory than there is"
    if isinstance(error, UnicodeDecodeError):
        return "cannot be read: it is not UTF-8 text"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    said = printable(" ".join(str(error).split())) or type(error).__name__
    if len(said) > _MOST_REASON_CHARACTERS:
        said = f"{said[:_MOST_REASON_CHARACTERS]}..."
    return f"cannot be read: {said}"


def read_json_object(path: Path, key: str = "model", most_bytes: int = _MOST_JSON_BYTES) -> dict[str, Any]:
    """Return the JSON object in a file of a model folder.

    Raises:
        ConfigError: there is no such file, or it is not a JSON object.
    """
    with reading(path, key):
        text = read_bytes(path, most_bytes).decode("utf-8-sig")
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise UnusableFileError(f"is not readable as JSON: {error}") from error
        if not isinstance(value, dict):
            raise UnusableFileError("is not a JSON object")
        return value


def read_bytes(path: Path, most_bytes: int) -> bytes:
    """Return what a file holds, at most `most_bytes`.

    Raises:
        UnusableFileError: the file is larger, is a Git LFS pointer, or is no regular file. A pipe would wait for ever.
        OSError: it cannot be opened.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnusableFileError("is not a file")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UnusableFileError(f"has more than {most_bytes:,} bytes")
    if content.startswith(_LFS_POINTER):
        raise UnusableFileError("is a Git LFS pointer, not the file itself; use `git lfs pull` to fetch the file")
    return content


def pointer_size(beginning: bytes) -> int | None:
    """Return the size of the file that a Git LFS pointer stands for; None where `beginning` is no such pointer."""
    if not beginning.startswith(_LFS_POINTER) or len(beginning) > MOST_POINTER_BYTES:
        return None
    size = _LFS_SIZE.search(beginning)
    return int(size[1]) if size else None


def _open_at_once(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NONBLOCK)
