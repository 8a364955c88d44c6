"""Which process answers at a launched server's address, and which file it logs to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import psutil


@dataclass(frozen=True, slots=True)
class Presence:
    """What could be seen of a launched server at one moment. Empty for a server that runs elsewhere.

    Attributes:
        listeners: the processes that listen at its port, each with the time it was started.
        log: the log file's number and its size in bytes.
    """

    listeners: frozenset[str] = frozenset()
    log: tuple[int, int] | None = None

    def compared_with(self, later: Presence) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yields what shows that another server answers by now: its name, and what was and is seen."""
        if self.listeners and later.listeners and self.listeners != later.listeners:
            yield "process", (", ".join(sorted(self.listeners)), ", ".join(sorted(later.listeners)))
        if self.log is None:
            return
        before = f"file {self.log[0]} of {self.log[1]} bytes"
        if later.log is None:
            yield "log", (before, "no file")
        elif later.log[0] != self.log[0] or later.log[1] < self.log[1]:
            yield "log", (before, f"file {later.log[0]} of {later.log[1]} bytes")


def presence(processes: Iterable[psutil.Process], base_url: str, log_path: Path) -> Presence:
    """Returns what can be seen of the server whose processes these are. Empty without a process."""
    listed = list(processes)
    if not listed:
        return Presence()
    port = urlsplit(base_url).port
    listeners: set[str] = set()
    for process in listed:
        with contextlib.suppress(psutil.Error):
            connections = process.net_connections(kind="tcp")
            if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in connections):
                started = datetime.fromtimestamp(process.create_time(), UTC).isoformat(timespec="milliseconds")
                listeners.add(f"{process.pid} started {started}")
    try:
        status = log_path.stat()
    except OSError:
        return Presence(frozenset(listeners))
    return Presence(frozenset(listeners), (status.st_ino, status.st_size))
