"""A vLLM engine whose server is a stand-in."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import psutil

from kveval.engines import process
from kveval.engines.vllm.engine import VLLMEngine
from support import ROOT

FAKE = ROOT / "tests" / "support" / "fake_vllm.py"


Maker = Callable[..., VLLMEngine]


def marked(engine: VLLMEngine) -> list[int]:
    """Processes that carry the engine's mark."""
    found = []
    for candidate in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if candidate.environ().get(process.MARK) == engine.process.mark:
                found.append(candidate.pid)
    return found


def gone(pid: int, within_s: float = 5.0) -> bool:
    """Whether a process has ended; a zombie that nobody reaps counts."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


async def until(condition: Callable[[], Any]) -> bool:
    for _ in range(200):
        if condition():
            return True
        await asyncio.sleep(0.05)
    return False


async def start(engine: VLLMEngine) -> list[str]:
    told: list[str] = []
    await engine.start(told.append)
    return told
