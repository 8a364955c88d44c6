"""Where vLLM can compute a request alike in every batch (``VLLM_BATCH_INVARIANT``): a second run repeats the first.

Read from the source of vLLM 0.32, not run: `supports_batch_invariance` of each attention backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kveval.engines.variants import Device, ResolvedVariant
from kveval.engines.vllm.limits import pinned_backend, shapes_in
from kveval.errors import UsageError
from kveval.formats.backends import BATCH_INVARIANT, generation_of, is_listed, stored_dtype
from kveval.memory.architecture import read_architecture
from kveval.memory.layers import StateLayer
from kveval.models.checkpoint import Model
from kveval.run.facts import Finding

VARIABLE = "VLLM_BATCH_INVARIANT"


def why_not_invariant(variant: ResolvedVariant, model: Model, flags: Mapping[str, Any], device: Device) -> str | None:
    """Returns why this variant cannot be served so. None if it can, as far as kveval knows.

    Args:
        flags: the configured flags of the variant.
    """
    if device.kind == "cpu":
        return "the CPU engine has no such attention"
    backend = pinned_backend(flags)
    if backend is not None:
        return None if backend in BATCH_INVARIANT else f"the attention backend {backend} is none of them"
    if _has_states(model):
        return "the model's recurrent layers have no such kernels"
    dtype, generation = variant.kv_cache_dtype, generation_of(device.architecture)
    if device.kind != "cuda" or generation is None or not is_listed(dtype):
        return None
    if all(stored_dtype(dtype, shape, generation, BATCH_INVARIANT) for shape in shapes_in(model)):
        return None
    return f"no such attention backend stores {dtype} for this model on {generation}"


def invariance_finding(reasons: Mapping[str, str | None]) -> Finding:
    """Says which variants are served so. `reasons` says for each, by its name, why not."""
    served = [name for name, reason in reasons.items() if reason is None]
    without: Sequence[str] = [f"{name} ({reason})" for name, reason in reasons.items() if reason is not None]
    if not without:
        return Finding.info("batch_invariant", "every variant computes a request alike in every batch")
    message = (
        f"{', '.join(served) or 'no variant'} computes a request alike in every batch; not {', '.join(without)}: its "
        "answers may differ from launch to launch, and its kernels are others"
    )
    return Finding.warning("batch_invariant_partial", message) if served else Finding.info("batch_invariant", message)


def _has_states(model: Model) -> bool:
    try:
        return any(isinstance(layer, StateLayer) for layer in read_architecture(model.config, str(model.path)).layers)
    except UsageError:
        return False
