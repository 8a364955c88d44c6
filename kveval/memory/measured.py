"""Theory beside what a server reported of its own cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kveval.errors import UsageError
from kveval.memory.architecture import read_architecture
from kveval.memory.estimate import Serving, capacity_tokens
from kveval.memory.formats import misfit, parse_format
from kveval.memory.pool import make_pool
from kveval.run.facts import Facts


def theory_beside_measured(
    config: Mapping[str, Any], source: str, facts: Facts, cache_bytes: int | None, tensor_parallel: int = 1
) -> dict[str, Any]:
    """A variant's capacity as computed and as its server reported it.

    Args:
        config: the model's parsed config.json; `source` is what errors call it.
        facts: of the variant's engine.
        cache_bytes: memory the server had for its cache: engine.kv_cache_gib on CPU, on GPU what it logged as
            "Available KV cache memory". None when unknown.

    Returns:
        theory_tokens, measured_tokens, difference_percent ((theory - measured) / measured, above 0 when more was
        computed than reported), and reason, why one of them is None.
    """
    measured = facts.kv_capacity_tokens
    try:
        theory, reason = _theory(config, source, facts, cache_bytes, tensor_parallel), None
    except UsageError as error:
        theory, reason = None, str(error)
    if measured is None and reason is None:
        reason = "the server did not report its capacity"
    difference = 100 * (theory - measured) / measured if theory is not None and measured else None
    return {
        "theory_tokens": theory,
        "measured_tokens": measured,
        "difference_percent": None if difference is None else round(difference, 2),
        "reason": reason,
    }


def _theory(config: Mapping[str, Any], source: str, facts: Facts, cache_bytes: int | None, tensor_parallel: int) -> int:
    dtype, window = facts.effective_cache_dtype, facts.max_model_len
    if cache_bytes is None or dtype is None or window is None:
        known = {"effective_cache_dtype": dtype, "max_model_len": window}
        unknown = [name for name, value in known.items() if value is None]
        raise UsageError(f"not known of this server: {', '.join(unknown) or 'the memory of its cache'}")
    stored = parse_format(facts.model_dtype or "bfloat16" if dtype == "auto" else dtype, "cache dtype")
    architecture = read_architecture(config, source, tensor_parallel)
    reason = misfit(stored, architecture)
    if reason:
        raise UsageError(f"{stored.name}: {reason}")
    serving = Serving("cpu" if facts.device == "cpu" else "gpu", facts.block_size, facts.max_num_batched_tokens)
    pool = make_pool(architecture, stored, serving.block_tokens_of(architecture), serving.device)
    return capacity_tokens(pool, cache_bytes, window, serving.in_flight_tokens(None))
