"""Memory, disk and texts of this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from kveval.api.machine.check import Check
from kveval.api.machine.gpus import Gpu
from kveval.downloads import cache_directory

GIB = 1 << 30
DEFAULT_SHARE = 0.92
"""Share of a GPU that vLLM takes where no gpu-memory-utilization is given (`CacheConfig`, vllm/config/cache.py)."""
_LITTLE_DISK = GIB
_LIMIT, _USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")


def available_bytes() -> int:
    """Returns the memory that a new process can have: the machine's, or what is left of a container's limit."""
    available = int(psutil.virtual_memory().available)
    try:
        return min(available, max(0, int(_LIMIT.read_text()) - int(_USED.read_text())))
    except (OSError, ValueError):  # no limit, or another version of control groups
        return available


def memory_checks(gpus: Sequence[Gpu]) -> Iterator[Check]:
    """Yields the free memory of each GPU and of the machine.

    Args:
        gpus: those that the engine uses.
    """
    for gpu in gpus:
        name = f"memory of GPU {gpu.index}"
        if gpu.total_bytes is None or gpu.free_bytes is None:
            yield Check(name, "ok", "not known: it is shared with the machine, or the GPU is divided (MIG)")
            continue
        found = f"{gpu.free_bytes / GIB:.1f} of {gpu.total_bytes / GIB:.1f} GiB free"
        if gpu.free_bytes >= gpu.total_bytes * DEFAULT_SHARE:
            yield Check(name, "ok", found)
            continue
        share = int(100 * gpu.free_bytes / gpu.total_bytes) / 100
        todo = f"stop what uses it, or set `args: {{gpu-memory-utilization: {share}}}` of the engine"
        yield Check(name, "note", f"{found}; vLLM takes {DEFAULT_SHARE} of it and would not start", todo)
    yield Check("memory", "ok", f"{available_bytes() / GIB:.1f} of {psutil.virtual_memory().total / GIB:.1f} GiB free")


def disk_checks() -> Iterator[Check]:
    """Yields the room where runs are written, and where texts and demo models are kept."""
    for name, folder in (("disk for runs", Path.cwd()), ("disk for texts", cache_directory())):
        there = next(parent for parent in (folder, *folder.absolute().parents) if parent.is_dir())
        if not os.access(there, os.W_OK):
            todo = "--out of another folder" if name == "disk for runs" else "set KVEVAL_CACHE to another folder"
            yield Check(name, "note", f"{there} is not writable", todo)
            continue
        free = shutil.disk_usage(there).free
        found = f"{free / GIB:.1f} GiB free in {folder}"
        yield Check(name, "ok", found) if free >= _LITTLE_DISK else Check(name, "note", found, "free some space")


def text_check(states: Sequence[tuple[str, str]]) -> Check:
    """Says which texts can be used offline.

    Args:
        states: name and state of each, as `kveval.list_data` tells them.
    """
    present = [name for name, state in states if state == "present"]
    absent = [name for name, state in states if state != "present"]
    found = f"offline: {', '.join(present) or 'none'}"
    if not absent:
        return Check("texts", "ok", found)
    todo = f"before going offline: kveval data fetch {' '.join(absent)}"
    return Check("texts", "note", f"{found}; fetched when needed: {', '.join(absent)}", todo)
