"""The NVIDIA GPUs of this machine, as their driver lists them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

_QUERY = ("index", "uuid", "driver_version", "mig.mode.current", "memory.total", "memory.free", "name")
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Gpu:
    """One NVIDIA GPU.

    Attributes:
        total_bytes, free_bytes: of its own memory; None where it shares the machine's, or is divided (MIG).
    """

    index: str
    uuid: str
    driver: str
    total_bytes: int | None
    free_bytes: int | None
    name: str


def list_gpus() -> list[Gpu]:
    """Returns the GPUs that a process started here may use. Empty where there is no driver, or it does not answer."""
    try:
        said = subprocess.run(
            ["nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return []
    if said.returncode != 0:
        return []
    rows = [[part.strip() for part in line.split(",", len(_QUERY) - 1)] for line in said.stdout.splitlines()]
    gpus = [
        Gpu(index, uuid, driver, _bytes(total, mig), _bytes(free, mig), name)
        for index, uuid, driver, mig, total, free, name in (row for row in rows if len(row) == len(_QUERY))
    ]
    return [gpu for gpu in gpus if _is_visible(gpu)]


def _bytes(mebibytes: str, mig: str) -> int | None:
    return int(mebibytes) * _MIB if mebibytes.isdecimal() and mig != "Enabled" else None


def _is_visible(gpu: Gpu) -> bool:
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return True
    names = [name.strip() for name in chosen.split(",") if name.strip()]
    # A part of a GPU (MIG) has an id of its own, which the driver does not list here.
    return any(name == gpu.index or name.startswith("MIG-") or gpu.uuid.startswith(name) for name in names)
