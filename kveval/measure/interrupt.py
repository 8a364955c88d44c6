"""Runs a measurement to its end, and lets Ctrl-C or SIGTERM stop it cleanly."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from kveval.errors import InterruptedRunError

T = TypeVar("T")


def run_interruptible(work: Coroutine[Any, Any, T], out: Path) -> T:
    """Runs `work` and returns its result.

    The first signal cancels `work` and waits until it has cleaned up. Later signals are ignored. Notebooks run an event
    loop of their own; there, `work` runs in a thread.

    Args:
        out: the run directory that the error message names.

    Raises:
        InterruptedRunError: a signal came.
    """
    run = _Run(work)
    try:
        return run.in_thread() if _has_running_loop() else run.here()
    except asyncio.CancelledError:
        raise InterruptedRunError(
            f"interrupted; no process is left running and every answer so far is kept. "
            f"To go on, use: kveval sweep --resume --out {out}",
            run.signal_number or signal.SIGINT,
        ) from None


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Run(Generic[T]):
    """One piece of work that a signal can cancel once."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self.signal_number: int | None = None

    def here(self) -> T:
        return asyncio.run(self._to_end())

    def in_thread(self) -> T:
        with ThreadPoolExecutor(max_workers=1) as pool:
            result = pool.submit(self.here)
            while True:
                try:
                    return result.result()
                except KeyboardInterrupt:
                    self._cancel(signal.SIGINT)

    async def _to_end(self) -> T:
        self._task = asyncio.get_running_loop().create_task(self._work)
        with self._signals_caught():
            return await self._task

    @contextmanager
    def _signals_caught(self) -> Iterator[None]:
        # Python allows signal handlers in the main thread only.
        signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        loop = asyncio.get_running_loop()
        for number in signals:
            loop.add_signal_handler(number, self._cancel, number)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    def _cancel(self, number: int) -> None:
        task = self._task
        if self.signal_number is None and task is not None:
            self.signal_number = number
            task.get_loop().call_soon_threadsafe(task.cancel)
