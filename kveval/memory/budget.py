"""How much memory a cache may take: the engine's share of the device, less the weights."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kveval.errors import UsageError
from kveval.models.weights import Weights

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


@dataclass(frozen=True, slots=True)
class Budget:
    """Memory of one device.

    Attributes:
        cache_bytes: what is left for the cache. Activations and CUDA graphs take some of it. Only the engine knows how
            much: it logs "Available KV cache memory" after it measured them.
        memory_bytes, utilization, weight_bytes: what `cache_bytes` comes from, weights of one rank; None when the
            user gave the memory of the cache itself.
        lfs_pointers: weight files that are not there: their Git LFS pointers told the sizes.
    """

    cache_bytes: int
    memory_bytes: int | None = None
    utilization: float | None = None
    weight_bytes: int | None = None
    lfs_pointers: int = 0


def make_budget(
    files: Weights | None,
    tensor_parallel: int = 1,
    *,
    memory: str | None = None,
    weights: str | None = None,
    utilization: float = DEFAULT_UTILIZATION,
    cache: str | None = None,
) -> Budget | None:
    """Return the budget for a checkpoint; None when neither memory nor cache is given.

    Args:
        files: the checkpoint's weight files; None where it has none.
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
    if weights is not None:
        files = Weights(parse_size(weights, "--weights"))
    if files is None:
        raise UsageError("--weights: the model has no weight files; use their size, such as --weights 16GiB")
    total = files.total_bytes
    per_rank = total // tensor_parallel
    left = int(memory_bytes * utilization) - per_rank
    if left <= 0:
        ranks = f" on each of {tensor_parallel} devices" if tensor_parallel > 1 else ""
        raise UsageError(
            f"--memory: {memory_bytes / GIB:.2f} GiB x {utilization} = {memory_bytes * utilization / GIB:.2f} GiB, but "
            f"the weights take {per_rank / GIB:.2f} GiB{ranks}; use more than {per_rank / utilization / GIB:.2f} "
            "GiB, or more devices with --tensor-parallel"
        )
    return Budget(left, memory_bytes, utilization, per_rank, files.pointers)
