"""How often a haystack is prefilled, although its questions share a prefix.

Read in the source of vLLM 0.32, not run: `reachable_block_mask` in vllm/v1/core/single_type_kv_cache_manager.py and
`find_longest_cache_hit` in vllm/v1/core/kv_cache_coordinator.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kveval.errors import UsageError
from kveval.memory.architecture import read_architecture
from kveval.memory.layers import StateLayer
from kveval.models.checkpoint import Model
from kveval.run.facts import Finding

_RETENTION = "prefix-cache-retention-interval"


def prefills_to_share(model: Model, flags: Mapping[str, Any]) -> int:
    """Returns after how many prefills, one after another, an engine serves a haystack from its prefix cache.

    A layer with a window or a state is kept at the end of a prompt only. The second question of a haystack finds
    nothing at the end of their common part, and makes the engine keep it there.
    """
    if str(flags.get(_RETENTION, 0)) != "0":
        return 1
    try:
        layers = read_architecture(model.config, str(model.path)).layers
    except UsageError:
        return 1
    sparse = [isinstance(layer, StateLayer) or layer.span == "sliding" for layer in layers]
    return 2 if any(sparse) and not all(sparse) else 1


def engines_of(flags: Mapping[str, Any]) -> int:
    """Returns how many engines with a prefix cache of their own answer at one address (``data-parallel-size``)."""
    given = str(flags.get("data-parallel-size", 1))
    return max(int(given), 1) if given.isdigit() else 1


def sharing_findings(name: str, model: Model, flags: Mapping[str, Any]) -> list[Finding]:
    """Returns what a reader must know of prefills that the variant called `name` does more than once."""
    findings = []
    if prefills_to_share(model, flags) > 1:
        message = (
            "layers with a window or a state are kept at the end of a prompt only: the second question of each "
            "haystack is prefilled again, later ones are not"
        )
        findings.append(Finding.info("second_prefill", message))
    engines = engines_of(flags)
    if engines > 1:
        message = (
            f"{name} runs {engines} engines (data-parallel-size), each with a prefix cache of its own, and vLLM "
            f"spreads the questions of a haystack: it may be prefilled {engines} times as often; to share all of it, "
            "use: data-parallel-size 1 and more tensor-parallel ranks"
        )
        findings.append(Finding.warning("data_parallel", message))
    return findings
