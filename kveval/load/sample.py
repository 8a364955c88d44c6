"""Reads what a server says of itself while it works: sequences, cache use, memory."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import psutil

from kveval.engines.client.client import Client
from kveval.engines.metrics import gauges

_FIRST_LOOK_S = 0.2


@dataclass(slots=True)
class Samples:
    """Values in the order they were read. `kv_usage` is a share in [0, 1]."""

    running: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    kv_usage: list[float] = field(default_factory=list)
    rss_bytes: list[float] = field(default_factory=list)


@contextlib.asynccontextmanager
async def sampling(client: Client, processes: Sequence[psutil.Process], interval_s: float) -> AsyncIterator[Samples]:
    """Reads every `interval_s` until the block ends."""
    samples = Samples()

    async def look() -> None:
        # There is nothing to read yet when the first requests are sent.
        await asyncio.sleep(min(interval_s, _FIRST_LOOK_S))
        while True:
            for name, value in gauges(await client.metrics_text()).items():
                getattr(samples, name).append(value)
            if processes:
                samples.rss_bytes.append(rss_bytes(processes))
            await asyncio.sleep(interval_s)

    looking = asyncio.create_task(look())
    try:
        yield samples
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking


def rss_bytes(processes: Sequence[psutil.Process]) -> float:
    """Returns the resident memory of all processes. Shared memory is counted for each of them."""
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return float(total)


def device_bytes(processes: Sequence[psutil.Process]) -> int | None:
    """Returns the GPU memory of the processes, as ``nvidia-smi`` says. None if it cannot tell."""
    if not processes or shutil.which("nvidia-smi") is None:
        return None
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=30, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    pids = {process.pid for process in processes}
    mebibytes = []
    for line in listed.splitlines():
        pid, _, used = line.partition(",")
        if pid.strip().isdigit() and int(pid) in pids and used.strip().isdigit():
            mebibytes.append(int(used))
    return sum(mebibytes) << 20 if mebibytes else None
