"""Where commands print, and what happens when nobody can read it."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from kveval.errors import FileAccessError
from kveval.terminal import Terminal, visible

STDOUT = Terminal()
STDERR = Terminal(stderr=True)


def print_json(value: Any) -> None:
    """Writes strict JSON to standard output."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_exactly(text: str) -> None:
    """Writes `text` byte for byte to a file or a pipe. On a terminal it spells out what could steer the terminal."""
    if sys.stdout.isatty():
        text = visible(text)
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))
    sys.stdout.buffer.flush()


class OutputClosedError(FileAccessError):
    """The reader of standard output stopped early, as ``head`` does. Nobody needs to be told."""


@contextlib.contextmanager
def guarded_streams() -> Iterator[None]:
    """Makes the standard streams safe to print to while a command runs.

    What standard output refuses ends the command as a FileAccessError. What standard error refuses is lost: a night's
    measurement must not end because nobody reads its progress.
    """
    stdout, stderr = sys.stdout, sys.stderr
    _open_missing_descriptors()
    if stderr is None:
        stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    for stream in (stdout, stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal without Unicode shows codes. It must not end a command.
            stream.reconfigure(errors="backslashreplace")
    output = _Stream(stdout, _refused)
    sys.stdout = output if stdout is not None else stdout
    sys.stderr = _Stream(stderr, _ignored)
    factory = logging.getLogRecordFactory()
    logging.setLogRecordFactory(_visible_records(factory))
    try:
        yield
    finally:
        logging.setLogRecordFactory(factory)
        # Libraries that log keep the stream, and flush it when Python exits.
        output.on_refusal = _ignored
        for console in (STDOUT, STDERR):
            console.forget()
        sys.stdout, sys.stderr = stdout, stderr
        for stream in (stdout, stderr):
            if stream is not None:
                _flush_or_silence(stream)


class _Stream:
    """A standard stream, or its bytes, with a rule for what it refuses."""

    def __init__(self, stream: Any, on_refusal: Callable[[OSError | ValueError], None]) -> None:
        self._stream = stream
        self.on_refusal = on_refusal

    def write(self, text: Any) -> int:
        try:
            return int(self._stream.write(text))
        except (OSError, ValueError) as error:
            self.on_refusal(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self.on_refusal(error)

    @property
    def buffer(self) -> _Stream:
        return _Stream(self._stream.buffer, self.on_refusal)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _ignored(_: OSError | ValueError) -> None:
    pass


def _refused(error: OSError | ValueError) -> None:
    if isinstance(error, BrokenPipeError):
        raise OutputClosedError("standard output: its reader has stopped") from error
    # A closed file raises ValueError.
    said = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    raise FileAccessError(f"standard output: cannot be written ({said})") from error


def _open_missing_descriptors() -> None:
    """Opens /dev/null for a standard stream that is closed. Else the next file opened would get what is printed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError as error:
            if error.errno == errno.EBADF:
                os.open(os.devnull, os.O_RDWR)


def _flush_or_silence(stream: TextIO) -> None:
    """Leaves nothing behind that Python would fail to write when it exits, since it would then end with code 120."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, stream.fileno())
            os.close(devnull)


def _visible_records(factory: Any) -> Any:
    """Libraries log what they read. Their messages reach the terminal without passing `Terminal`."""

    def make(*arguments: Any, **options: Any) -> logging.LogRecord:
        record: logging.LogRecord = factory(*arguments, **options)
        with contextlib.suppress(Exception):  # a message that does not fit its arguments is logging's to report
            record.msg, record.args = visible(record.getMessage()), None
            if record.exc_info and record.exc_info[1]:
                record.exc_text = visible("".join(traceback.format_exception(record.exc_info[1])).rstrip())
        return record

    return make
