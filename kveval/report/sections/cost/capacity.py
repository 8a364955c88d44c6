"""What every variant's cache holds: computed from the model's config.json, beside what its server reported."""

from __future__ import annotations

import json
from pathlib import Path

from kveval.judge.recommend.serve_command import cpu_cache_gib
from kveval.judge.run_data import RunData
from kveval.memory.measured import CapacityComparison, compare_capacity
from kveval.report.labels import baseline_first
from kveval.run.manifest import VariantRun


def capacities(run: RunData) -> list[tuple[str, CapacityComparison]]:
    """Returns the name and the capacity of every variant, the baseline's first."""
    return [(variant.name, _capacity(run, variant)) for variant in baseline_first(run)]


def _capacity(run: RunData, variant: VariantRun) -> CapacityComparison:
    facts = variant.facts
    path = Path(str(variant.spec.get("model"))) / "config.json"
    gib = facts.kv_cache_gib or cpu_cache_gib(run.manifest, variant)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError) as error:
        reason = f"cannot read the model's {path.name} ({type(error).__name__})"
        return CapacityComparison(None, facts.kv_capacity_tokens, None, reason)
    cache_bytes = None if gib is None else int(gib * 2**30)
    return compare_capacity(config, str(path), facts, cache_bytes, _tensor_parallel(variant))


def _tensor_parallel(variant: VariantRun) -> int:
    arguments = variant.spec.get("engine_args") or {}
    given = arguments.get("tensor-parallel-size", arguments.get("tensor_parallel_size", 1))
    return int(given) if str(given).isdigit() else 1
