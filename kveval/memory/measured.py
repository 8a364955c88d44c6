"""The capacity that kveval computes beside the capacity that a server reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kveval.errors import UsageError
from kveval.formats.cache_dtype import CacheDtype
from kveval.memory.architecture import read_architecture
from kveval.memory.estimate import capacity_tokens
from kveval.memory.formats import misfit, parse_format
from kveval.memory.pool import EngineSettings, Skipped, make_pool
from kveval.run.facts import Facts

# Large enough that rounding to whole blocks does not show in a ratio.
_ANY_CACHE_BYTES = 1 << 40
# Below this, what a launch leaves for its cache differs as much.
_LEAST_EXPECTED_GAIN = 0.05
# FP8 of a dense model should hold 2 times the tokens. Less than 1.3 times is not FP8.
_LEAST_SHARE = 0.3


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


def expected_ratio(
    config: Mapping[str, Any], source: str, facts: Facts, baseline: Facts, tensor_parallel: int = 1
) -> float | None:
    """Compute how many times the baseline's tokens a variant's cache should hold.

    State is not quantized, and neither are skipped layers: with them, it is less than the bits of the dtype tell. Where
    both servers say how much memory they have for it, that counts too. None if the model or the dtype cannot be sized,
    or a fact is not known.
    """
    try:
        ours, theirs = (_theory(config, source, one, _ANY_CACHE_BYTES, tensor_parallel) for one in (facts, baseline))
    except UsageError:
        return None
    memory = facts.kv_cache_gib / baseline.kv_cache_gib if facts.kv_cache_gib and baseline.kv_cache_gib else 1.0
    return ours / theirs * memory if theirs else None


def gains_too_little(ratio: float, expected: float) -> bool:
    """Whether a cache that should hold `expected` times the baseline's tokens holds hardly more than the baseline's."""
    return expected - 1 >= _LEAST_EXPECTED_GAIN and ratio - 1 < _LEAST_SHARE * (expected - 1)


def _theory(config: Mapping[str, Any], source: str, facts: Facts, cache_bytes: int | None, tensor_parallel: int) -> int:
    stored, window = facts.effective_cache_dtype, facts.max_model_len
    if cache_bytes is None or stored is None or window is None:
        known = {"effective_cache_dtype": stored, "max_model_len": window}
        unknown = [name for name, value in known.items() if value is None]
        raise UsageError(f"not known of this server: {', '.join(unknown) or 'the memory of its cache'}")
    own = facts.model_dtype or "bfloat16"
    dtype = parse_format(own if stored == "auto" else stored, "cache dtype")
    architecture = read_architecture(config, source, tensor_parallel)
    reason = misfit(dtype, architecture)
    if reason:
        raise UsageError(f"{dtype.name}: {reason}")
    settings = EngineSettings("cpu" if facts.device == "cpu" else "gpu", facts.block_size, facts.max_num_batched_tokens)
    pool = make_pool(architecture, dtype, settings, _skipped(facts, parse_format(own, "model dtype")))
    return capacity_tokens(pool, cache_bytes, window, settings.in_flight_tokens(None))


def _skipped(facts: Facts, own: CacheDtype) -> Skipped | None:
    """Return the layers that the server says it skips."""
    names = facts.skipped_layers
    if not names:
        return None
    return Skipped(own, frozenset(int(name) for name in names if name.isdigit()), "sliding_window" in names)
