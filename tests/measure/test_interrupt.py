"""Ctrl-C and SIGTERM while something is measured."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from kveval.errors import InterruptedRunError
from kveval.measure.interrupt import run_interruptible


async def ends() -> int:
    return 3


async def fails() -> None:
    raise LookupError("lost")


async def cleans_up_slowly(cleaned: list[str]) -> None:
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.1)
        cleaned.append("up")


def signals(number: int, *, after_s: tuple[float, ...]) -> None:
    """Sends this process a signal, once for each delay."""

    def send() -> None:
        for delay in after_s:
            time.sleep(delay)
            os.kill(os.getpid(), number)

    threading.Thread(target=send).start()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_work_clean_up_and_a_second_one_does_not_disturb_it(number: signal.Signals) -> None:
    cleaned: list[str] = []
    signals(number, after_s=(0.1, 0.05))
    with pytest.raises(InterruptedRunError, match="use: kveval sweep --resume --out runs/x") as caught:
        run_interruptible(cleans_up_slowly(cleaned), Path("runs/x"))
    assert caught.value.exit_code == 128 + number
    assert cleaned == ["up"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_work_that_ends_is_not_disturbed() -> None:
    assert run_interruptible(ends(), Path("x")) == 3


def test_work_that_fails_raises_its_own_error() -> None:
    with pytest.raises(LookupError, match="lost"):
        run_interruptible(fails(), Path("x"))


async def test_a_notebook_whose_loop_runs_already_gets_the_result() -> None:
    assert run_interruptible(ends(), Path("x")) == 3


async def test_an_error_reaches_a_notebook() -> None:
    with pytest.raises(LookupError, match="lost"):
        run_interruptible(fails(), Path("x"))


def test_ctrl_c_in_a_notebook_lets_the_work_clean_up() -> None:
    cleaned: list[str] = []

    async def cell() -> None:
        # The interrupt reaches a notebook's cell as KeyboardInterrupt, as it does here without asyncio's handler.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signals(signal.SIGINT, after_s=(0.2,))
        run_interruptible(cleans_up_slowly(cleaned), Path("runs/x"))

    with pytest.raises(InterruptedRunError, match="interrupted"):
        asyncio.run(cell())
    assert cleaned == ["up"]


def test_a_thread_that_cannot_catch_signals_still_measures() -> None:
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(run_interruptible(ends(), Path("x"))))
    thread.start()
    thread.join()
    assert results == [3]
