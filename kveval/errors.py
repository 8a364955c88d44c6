"""Every error that kveval raises on purpose, and every exit code of its commands.

::

    KvevalError
    ├── UsageError                 2  the input is wrong; nothing was started, nothing is lost
    │   ├── ConfigError               a key or value of the sweep configuration
    │   ├── PlanError                 a sample or variant that cannot be run as asked
    │   ├── RunDirectoryError         a run directory that cannot be used as asked
    │   │   └── ResumeError           the run was started with different inputs
    │   ├── BlessedFileError          a blessed file that is broken, edited by hand, or from a newer kveval
    │   ├── EngineNotInstalledError   the configured command starts no engine
    │   └── StorageError              the disk is full or not writable
    ├── InfrastructureError        3  the input may be right; the engine, the machine or the network failed
    │   ├── EngineError               an engine did not start, died or hung
    │   ├── FactsError                an engine does something other than it was asked to
    │   │   └── FactsChangedError     an engine does something other than it did before
    │   ├── DataError                 texts or models could not be fetched, or do not match their hash
    │   ├── FileAccessError           the system does not let a path be used, or standard output takes no more
    │   └── InternalError         70  kveval itself failed, which says nothing about the caches
    ├── IncomparableError          4  two runs did not ask the same questions
    └── InterruptedRunError  130, 143  Ctrl-C or SIGTERM stopped the run

A command that ends without an error returns 0. `kveval gate` and `kveval recommend` also return 1 for a loss and 5 for
"undecided"; see `ExitCode`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """What a command tells the shell; README.md has the same table.

    1 is never the code of a crash. 70 is ``EX_SOFTWARE`` of sysexits.h. 130 (Ctrl-C) and 143 (SIGTERM) are 128 + the
    signal's number, as shells count.
    """

    OK = 0
    LOSS = 1
    USAGE = 2
    INFRASTRUCTURE = 3
    INCOMPARABLE = 4
    UNDECIDED = 5
    INTERNAL = 70


class KvevalError(Exception):
    """Base class of all errors that kveval raises on purpose.

    ``str(error)`` is one readable sentence for the terminal.
    """

    exit_code: int = ExitCode.INFRASTRUCTURE


class UsageError(KvevalError):
    exit_code = ExitCode.USAGE


class ConfigError(UsageError):
    pass


class PlanError(UsageError):
    pass


class RunDirectoryError(UsageError):
    pass


class ResumeError(RunDirectoryError):
    pass


class BlessedFileError(UsageError):
    pass


class EngineNotInstalledError(UsageError):
    pass


class StorageError(UsageError):
    pass


class IncomparableError(KvevalError):
    exit_code = ExitCode.INCOMPARABLE


class InfrastructureError(KvevalError):
    exit_code = ExitCode.INFRASTRUCTURE


class EngineError(InfrastructureError):
    """An engine did not start, died or hung.

    Attributes:
        log_tail: the last lines of the engine's log. Empty if it wrote none.
    """

    def __init__(self, message: str, log_tail: str = "") -> None:
        super().__init__(message)
        self.log_tail = log_tail


class FactsError(InfrastructureError):
    pass


class FactsChangedError(FactsError):
    pass


class DataError(InfrastructureError):
    pass


class FileAccessError(InfrastructureError):
    pass


class InternalError(InfrastructureError):
    """An error that nobody foresaw. It says nothing about the run; its cause belongs in a report of a bug."""

    exit_code = ExitCode.INTERNAL


class InterruptedRunError(KvevalError):
    """Ctrl-C or SIGTERM stopped the run. Everything answered so far is kept."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns ``'did you mean X? '`` if a known name is close to `name`, and then every name one can use."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    suggestion = f"did you mean {close[0]!r}? " if close else ""
    return f"{suggestion}use: {', '.join(names)}"
