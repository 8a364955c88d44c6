"""What every variant cost: time, tokens, cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from kveval.errors import ConfigError
from kveval.judge.comparison.judgement import Judgement
from kveval.judge.comparison.scope import in_scope, scopes
from kveval.judge.recommend.serve_command import cpu_cache_gib
from kveval.judge.run_data import RunData
from kveval.memory.measured import CapacityComparison, compare_capacity
from kveval.models.config_file import read_config
from kveval.report.section import Section
from kveval.run.manifest import VariantRun


@dataclass(frozen=True, slots=True)
class Times:
    """Times of one variant's records, at one context length or over all.

    Attributes:
        at_once: answers that something collected on their way. They have no times.
    """

    variant: str
    context_length: int | None
    n: int
    at_once: int
    ttft_ms: float | None
    ttft_p95_ms: float | None
    itl_ms: float | None
    itl_p95_ms: float | None


@dataclass(frozen=True, slots=True)
class Cost:
    """What one variant cost. Counts come from the engine's counters, and are None where it has none.

    Attributes:
        computed_tokens: prompt tokens that did not come from the prefix cache.
        hit_share: of the prompt tokens the prefix cache was asked for, the share that it had.
    """

    variant: VariantRun
    times: Times
    prompt_tokens: float | None
    computed_tokens: float | None
    generation_tokens: float | None
    hit_share: float | None
    preemptions: float | None
    retried: int


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of every variant, its times by context length, and its capacity."""

    rows: list[Cost]
    times: list[Times]
    capacities: list[tuple[str, CapacityComparison]]


def costs(run: RunData, _: Judgement) -> Costs:
    return Costs([_cost(run, variant) for variant in run.baseline_first], times_by_length(run), capacities(run))


def times_by_length(run: RunData) -> list[Times]:
    """Returns the times of every context length and variant that has records."""
    rows = []
    for group in scopes(run.samples, "length"):
        ids = in_scope(run.samples, group).index
        for variant in run.baseline_first:
            records = run.records[variant.name]
            of_length = records[records.index.isin(ids)]
            if len(of_length):
                rows.append(_times(variant.name, group.context_length, of_length))
    return rows


def _cost(run: RunData, variant: VariantRun) -> Cost:
    records, counters = run.asked_here(variant.name), variant.counters
    share = _share(counters.get("prefix_cache_hits"), counters.get("prefix_cache_queries"))
    if share is None:
        share = _share(counters.get("prompt_tokens_cached"), counters.get("prompt_tokens"))
    return Cost(
        variant=variant,
        times=_times(variant.name, None, records),
        prompt_tokens=counters.get("prompt_tokens"),
        computed_tokens=counters.get("prompt_tokens_computed"),
        generation_tokens=counters.get("generation_tokens"),
        hit_share=share,
        preemptions=counters.get("preemptions"),
        retried=int((records["attempts"] > 1).sum()) if len(records) else 0,
    )


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if whole and part is not None else None


def _times(variant: str, context_length: int | None, records: pd.DataFrame) -> Times:
    at_once = records["arrived_at_once"].astype(bool)
    timed = records[~at_once]
    quantiles = [_quantile(timed[column], share) for column in ("ttft_ms", "itl_ms") for share in (0.5, 0.95)]
    return Times(variant, context_length, len(records), int(at_once.sum()), *quantiles)


def _quantile(values: pd.Series, share: float) -> float | None:
    known = pd.to_numeric(values, errors="coerce").dropna()
    return float(known.quantile(share)) if len(known) else None


SECTION = Section("Cost", 50, costs)


def capacities(run: RunData) -> list[tuple[str, CapacityComparison]]:
    """Returns what every cache holds, the baseline's first: by the model's config.json, beside what its server said."""
    return [(variant.name, _capacity(run, variant)) for variant in run.baseline_first]


def _capacity(run: RunData, variant: VariantRun) -> CapacityComparison:
    facts = variant.facts
    path = Path(str(variant.spec.get("model"))) / "config.json"
    gib = facts.kv_cache_gib or cpu_cache_gib(run.manifest, variant)
    try:
        config = read_config(path)
    except ConfigError:
        return CapacityComparison(None, facts.kv_capacity_tokens, None, f"cannot read the model's {path.name}")
    cache_bytes = None if gib is None else int(gib * 2**30)
    return compare_capacity(config, str(path), facts, cache_bytes, _tensor_parallel(variant))


def _tensor_parallel(variant: VariantRun) -> int:
    arguments = variant.spec.get("engine_args") or {}
    given = arguments.get("tensor-parallel-size", arguments.get("tensor_parallel_size", 1))
    return int(given) if str(given).isdigit() else 1
