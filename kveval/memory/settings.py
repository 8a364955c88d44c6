"""How the engine is started, as far as that decides the size of its cache."""

from __future__ import annotations

from dataclasses import dataclass

from kveval.errors import UsageError
from kveval.memory.architecture import Architecture
from kveval.memory.budget import GIB
from kveval.memory.pool import default_block_tokens

# Asynchronous scheduling has two batches under way (`max_concurrent_batches`, vllm/config/vllm.py): vLLM's default on
# GPU. It is off on CPU (vllm/platforms/cpu.py).
_BATCHES_IN_FLIGHT = {"gpu": 2, "cpu": 1}


def default_batched_tokens(device: str, memory_bytes: int | None) -> int:
    """Return vLLM's ``--max-num-batched-tokens`` where none is given.

    Source: `get_batch_defaults` in vllm/engine/arg_utils.py. It also gives an A100 of 80 GB 2048, by the name of the
    device, which is not known here.
    """
    if device == "cpu":
        return 2048
    if memory_bytes is None:
        return 8192
    return 16384 if memory_bytes >= 160 * GIB else 8192 if memory_bytes >= 70 * GIB else 2048


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings of the engine that decide what a sequence takes.

    Attributes:
        device: gpu or cpu.
        block_tokens: None = vLLM's default.
        batched_tokens: prompt tokens computed in one step; None = vLLM's default.
        tensor_parallel: devices that share the heads.
    """

    device: str = "gpu"
    block_tokens: int | None = None
    batched_tokens: int | None = None
    tensor_parallel: int = 1

    def __post_init__(self) -> None:
        """Check the values. Raises UsageError: a value that cannot be used."""
        if self.device not in _BATCHES_IN_FLIGHT:
            raise UsageError(f"--device: {self.device!r} is not a device; use: {', '.join(_BATCHES_IN_FLIGHT)}")
        for flag, value in (
            ("--block-size", self.block_tokens),
            ("--batched-tokens", self.batched_tokens),
            ("--tensor-parallel", self.tensor_parallel),
        ):
            if value is not None and value <= 0:
                raise UsageError(f"{flag}: {value} is too small; use a positive integer")

    def in_flight_tokens(self, memory_bytes: int | None) -> int:
        """Return how many prompt tokens the engine computes at once, on a device with `memory_bytes`."""
        batched = self.batched_tokens or default_batched_tokens(self.device, memory_bytes)
        return _BATCHES_IN_FLIGHT[self.device] * batched

    def block_tokens_of(self, architecture: Architecture) -> int:
        """Return the block size asked for, or vLLM's default for `architecture`."""
        return self.block_tokens or default_block_tokens(architecture, self.device)
