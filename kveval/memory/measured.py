"""The capacity that kveval computes beside the capacity that a server reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kveval.errors import UsageError
from kveval.memory.architecture import read_architecture
from kveval.memory.estimate import capacity_tokens
from kveval.memory.formats import misfit, parse_format
from kveval.memory.pool import EngineSettings, make_pool
from kveval.run.facts import Facts


@dataclass(frozen=True, slots=True)
class CapacityComparison:
    """Tokens of a variant's cache.

    Attributes:
        theory_tokens: as computed; `measured_tokens`: as the server reported.
        difference_percent: (theory - measured) / measured; above 0 when more was computed than reported.
        reason: why one of them is None.
    """

    theory_tokens: int | None
    measured_tokens: int | None
    difference_percent: float | None
    reason: str | None


def compare_capacity(
    config: Mapping[str, Any], source: str, facts: Facts, cache_bytes: int | None, tensor_parallel: int = 1
) -> CapacityComparison:
    """Compute a variant's capacity and set it beside the one its server reported.

    Args:
        config: the model's parsed config.json; `source` is what errors call it.
        cache_bytes: memory the server had for its cache: engine.kv_cache_gib on CPU; on GPU what it logged as
            "Available KV cache memory". None when unknown.
    """
    theory, reason = None, None
    try:
        theory = _theory(config, source, facts, cache_bytes, tensor_parallel)
    except UsageError as error:
        reason = str(error)
    measured = facts.kv_capacity_tokens
    if measured is None and reason is None:
        reason = "the server did not report its capacity"
    difference = round(100 * (theory - measured) / measured, 2) if theory is not None and measured else None
    return CapacityComparison(theory, measured, difference, reason)


def _theory(config: Mapping[str, Any], source: str, facts: Facts, cache_bytes: int | None, tensor_parallel: int) -> int:
    stored, window = facts.effective_cache_dtype, facts.max_model_len
    if cache_bytes is None or stored is None or window is None:
        known = {"effective_cache_dtype": stored, "max_model_len": window}
        unknown = [name for name, value in known.items() if value is None]
        raise UsageError(f"not known of this server: {', '.join(unknown) or 'the memory of its cache'}")
    dtype = parse_format(facts.model_dtype or "bfloat16" if stored == "auto" else stored, "cache dtype")
    architecture = read_architecture(config, source, tensor_parallel)
    reason = misfit(dtype, architecture)
    if reason:
        raise UsageError(f"{dtype.name}: {reason}")
    settings = EngineSettings("cpu" if facts.device == "cpu" else "gpu", facts.block_size, facts.max_num_batched_tokens)
    pool = make_pool(architecture, dtype, settings)
    return capacity_tokens(pool, cache_bytes, window, settings.in_flight_tokens(None))
