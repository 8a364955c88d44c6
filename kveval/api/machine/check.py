"""One line of what was found on a machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "missing"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a sweep needs.

    Attributes:
        state: ``note``: a sweep can run, but not every one. ``missing``: none can.
        found: what is there.
        todo: what to do about it; empty where nothing is to be done.
    """

    name: str
    state: State
    found: str
    todo: str = ""

    @classmethod
    def of_error(cls, name: str, error: Exception) -> Check:
        """Returns what an error of kveval says: what is wrong, and behind its first semicolon what to do."""
        found, _, todo = str(error).partition("; ")
        return cls(name, "missing", found, todo)


def can_sweep(checks: Iterable[Check]) -> bool:
    """Whether nothing is missing that every sweep needs."""
    return all(check.state != "missing" for check in checks)
