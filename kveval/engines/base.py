"""What measuring needs of an engine, whichever server it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import psutil

from kveval.engines.client.access import Access
from kveval.run.facts import Facts

OnStatus = Callable[[str], None]


class Engine(Protocol):
    """One server of one variant.

    Attributes:
        base_url: ``http://host:port`` without a path; valid once started.
        model_name: what requests name as ``model``.
        log_path: where the server's output goes.
        access: how requests reach it, and how it wants to be asked; valid once started.
    """

    base_url: str
    model_name: str
    log_path: Path
    access: Access

    async def start(self, on_status: OnStatus) -> None:
        """Returns once the server is healthy.

        Raises:
            EngineError: it died, hung or never became healthy; nothing is left running.
        """
        ...

    def exit_message(self) -> str | None:
        """Why the server is gone, or None while it runs."""
        ...

    def processes(self) -> list[psutil.Process]:
        """Those of the running server; none where it runs elsewhere."""
        ...

    async def facts(self) -> Facts:
        """What the running server was established to be doing.

        Raises:
            EngineError: it does not answer.
        """
        ...

    async def stop(self) -> None:
        """Leaves no process behind. Safe to call twice, or before `start`."""
        ...
