"""Sizes a model's KV cache before anything is started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kveval.config.values import is_there
from kveval.errors import ConfigError
from kveval.memory.architecture import read_architecture
from kveval.memory.budget import make_budget
from kveval.memory.estimate import MemoryEstimate, estimate
from kveval.memory.plausible import check_weights
from kveval.memory.pool import EngineSettings
from kveval.models.checkpoint import read_model
from kveval.models.weights import Weights, read_weights


def estimate_memory(
    model: str | Path,
    *,
    memory: str | None = None,
    weights: str | None = None,
    utilization: float = 0.9,
    cache: str | None = None,
    formats: Sequence[str] | None = None,
    lengths: Sequence[int] | None = None,
    block_size: int | None = None,
    tensor_parallel: int = 1,
    device: str = "gpu",
    batched_tokens: int | None = None,
) -> MemoryEstimate:
    """Sizes the KV cache of a model from its config.json, and counts what fits: ``kveval memory --json``.

    Args:
        model: a checkpoint folder, a file that holds a config.json under any name, or the name of a demo model.
        memory: memory of one device, such as ``"80GiB"``. Without it, or `cache`, nothing is said about what fits.
        weights: size of the weights over all devices. Default: the size of the checkpoint's files.
        utilization: share of the memory that the engine may use.
        cache: memory of the cache itself, instead of `memory` and `weights`.
        formats: cache formats, such as ``["bf16", "fp8"]``. Default: the common ones that are stored there.
        lengths: context lengths in tokens.
        block_size: tokens per block. Default: vLLM's.
        tensor_parallel: devices that share the model.
        device: ``"gpu"``, a generation of NVIDIA GPUs such as ``"hopper"``, or ``"cpu"``. It decides which formats are
            stored, in which layout, and defaults of the engine.
        batched_tokens: the engine's ``max-num-batched-tokens``. Default: vLLM's for this memory.

    Returns:
        Bytes per token and per sequence for each format and length, and how many sequences fit.

    Raises:
        ConfigError: config.json lacks what is needed, or has layers that kveval does not know.
        UsageError: a value is not allowed, or the weights leave no room.

    Example:
        >>> sizes = kveval.estimate_memory("models/llama", memory="80GiB", formats=["bf16", "fp8"], lengths=[32768])
        >>> [(row.format, row.lengths[0].sequences) for row in sizes.formats]
        [('bfloat16', 14), ('fp8', 28)]
    """
    path = Path(model)
    settings = EngineSettings(device, block_size, batched_tokens, tensor_parallel)
    is_file = path.name == "config.json" or (is_there(path) and path.is_file())
    found = read_model(path.parent, "MODEL", path.name) if is_file else read_model(path, "MODEL")
    source = str(found.path / (path.name if is_file else "config.json"))
    # Weights beside a file of another name belong to another model.
    has_weights = weights is None and (not is_file or path.name == "config.json")
    files = _weights(found.path, required=memory is not None) if has_weights else None
    if files is not None:
        check_weights(read_architecture(found.config, source), files.tensors, source)
    budget = make_budget(files, tensor_parallel, memory=memory, weights=weights, utilization=utilization, cache=cache)
    return estimate(
        found.config,
        source,
        window=found.window,
        settings=settings,
        formats=None if formats is None else list(formats),
        lengths=lengths,
        budget=budget,
    )


def _weights(folder: Path, *, required: bool) -> Weights | None:
    """Reads the weight files. Where nothing depends on them, files that cannot be read are none."""
    try:
        return read_weights(folder, "MODEL")
    except ConfigError:
        if required:
            raise
        return None
