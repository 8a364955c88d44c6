"""Every error kveval raises on purpose; each class carries the exit code of the command.

::

    KvevalError
    ├── UsageError                 2  the input is wrong; nothing was started, nothing is lost
    │   ├── ConfigError               a key or value of the sweep configuration
    │   ├── PlanError                 a sample or variant that cannot be run as asked
    │   ├── RunDirectoryError         a run directory that cannot be used as asked
    │   │   └── ResumeError           it was made with other inputs than now given
    │   ├── BlessedFileError          a blessed file that is broken, edited by hand or of a newer kveval
    │   ├── EngineNotInstalledError   no engine at the configured command
    │   └── StorageError              the disk is full or not writable
    ├── IncomparableError          4  two runs that did not ask the same
    └── InfrastructureError        3  the input may be right, the world is not
        ├── EngineError               an engine did not start, died or hung
        ├── FactsError                an engine does something other than it was asked to
        └── DataError                 text or models could not be fetched or do not match their hash
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class KvevalError(Exception):
    """Base of all deliberate errors. ``str(error)`` is one readable sentence for the terminal."""

    exit_code = 1


class UsageError(KvevalError):
    exit_code = 2


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
    exit_code = 4


class InfrastructureError(KvevalError):
    exit_code = 3


class EngineError(InfrastructureError):
    """An engine did not start, died or hung.

    Attributes:
        log_tail: the engine's last log lines, empty when it wrote none.
    """

    def __init__(self, message: str, log_tail: str = "") -> None:
        super().__init__(message)
        self.log_tail = log_tail


class FactsError(InfrastructureError):
    pass


class DataError(InfrastructureError):
    pass


def nearest(name: str, allowed: Iterable[str]) -> str:
    """``'did you mean X? '`` when a name close to `name` is allowed, then the allowed names."""
    names = sorted(allowed)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    suggestion = f"did you mean {close[0]!r}? " if close else ""
    return f"{suggestion}allowed: {', '.join(names)}"
