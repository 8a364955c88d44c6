"""How much memory a cache may take: the engine's share of the device, less the weights."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from kveval.errors import UsageError

GIB = 1 << 30
DEFAULT_UTILIZATION = 0.9
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT])(i?)B?", re.IGNORECASE)
_POWER = {"k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str, flag: str) -> int:
    """Return the bytes of ``80GiB`` (2^30) or ``80GB`` (10^9). Raises UsageError: no size, or a size of 0."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * (1024 if match[3] else 1000) ** _POWER[match[2].lower()]) if match else 0
    if size <= 0:
        raise UsageError(f"{flag}: {text!r} is not a size; use 80GiB (2^30 bytes) or 80GB (10^9 bytes)")
    return size


def weight_bytes(folder: Path) -> int | None:
    """Return the bytes of the weight files that an engine loads; None where there are none.

    Counts one copy where a checkpoint ships its weights twice: in two formats, or once more as ``consolidated*``.
    """
    for index in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        sizes = [_size(folder / name) for name in _indexed(folder / index)]
        if sizes and None not in sizes:
            return sum(size or 0 for size in sizes)
    for pattern in ("*.safetensors", "*.bin"):
        files = list(folder.glob(pattern))
        files = [file for file in files if not file.name.startswith("consolidated")] or files
        sizes = [_size(file) for file in files]
        if sizes:
            return sum(size or 0 for size in sizes)
    return None


def _indexed(index: Path) -> list[str]:
    try:
        names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return sorted({name for name in names if isinstance(name, str)})


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Budget:
    """Memory of one device.

    Attributes:
        cache_bytes: what is left for the cache. Activations and CUDA graphs take some of it. Only the engine knows how
            much: it logs "Available KV cache memory" after it measured them.
        memory_bytes, utilization, weight_bytes: what `cache_bytes` comes from, weights of one rank; None when the
            user gave the memory of the cache itself.
    """

    cache_bytes: int
    memory_bytes: int | None = None
    utilization: float | None = None
    weight_bytes: int | None = None


def make_budget(
    folder: Path,
    tensor_parallel: int = 1,
    *,
    memory: str | None = None,
    weights: str | None = None,
    utilization: float = DEFAULT_UTILIZATION,
    cache: str | None = None,
) -> Budget | None:
    """Return the budget for the checkpoint in `folder`; None when neither memory nor cache is given.

    Args:
        tensor_parallel: devices that share the weights evenly.
        memory: of one device.
        weights: over all devices; None = the checkpoint's files.
        utilization: share of the memory the engine may use.
        cache: of one device, in place of the others.

    Raises:
        UsageError: flags that cannot be used together, no size, no weights, or nothing left after the weights.
    """
    if memory is None:
        for flag, given in (
            ("--weights", weights is not None),
            ("--utilization", utilization != DEFAULT_UTILIZATION),
        ):
            if given:
                raise UsageError(f"{flag}: has a meaning only with --memory, which is not given; use both")
        return None if cache is None else Budget(parse_size(cache, "--cache"))
    if cache is not None:
        raise UsageError("--cache: is what --memory leaves after the weights; use one of the two")
    memory_bytes = parse_size(memory, "--memory")
    if not 0 < utilization <= 1:
        raise UsageError(f"--utilization: {utilization} is not a share of the memory; use a number above 0 and up to 1")
    total = weight_bytes(folder) if weights is None else parse_size(weights, "--weights")
    if not total:
        raise UsageError(f"--weights: {folder} has no weight files; use their size, such as --weights 16GiB")
    per_rank = total // tensor_parallel
    left = int(memory_bytes * utilization) - per_rank
    if left <= 0:
        ranks = f" on each of {tensor_parallel} devices" if tensor_parallel > 1 else ""
        raise UsageError(
            f"--memory: {memory_bytes / GIB:.2f} GiB x {utilization} = {memory_bytes * utilization / GIB:.2f} GiB, but "
            f"the weights take {per_rank / GIB:.2f} GiB{ranks}; use more than {per_rank / utilization / GIB:.2f} "
            "GiB, or more devices with --tensor-parallel"
        )
    return Budget(left, memory_bytes, utilization, per_rank)
