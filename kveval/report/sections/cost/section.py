"""What every variant cost: time, tokens, cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from kveval.judge.comparison.scope import in_scope, scopes
from kveval.judge.run_data import RunData
from kveval.report.rows import baseline_first
from kveval.report.section import Section
from kveval.report.sections.cost.capacity import capacity_table
from kveval.run.manifest import VariantRun


def cost_table(run: RunData) -> list[dict[str, Any]]:
    """Of every variant; times in milliseconds over the answered samples."""
    return [_cost(run, variant) for variant in baseline_first(run)]


def times_table(run: RunData) -> list[dict[str, Any]]:
    """Time to first token and between tokens, in milliseconds, by variant and context length."""
    rows = []
    for group in scopes(run.samples):
        if group.level != "length":
            continue
        ids = in_scope(run.samples, group).index
        for variant in baseline_first(run):
            records = run.records[variant.name]
            of_length = records[records.index.isin(ids)]
            if len(of_length):
                rows.append(
                    {"variant": variant.name, "context_length": group.context_length, **_times(of_length)}
                )  # fmt: skip
    return rows


def _cost(run: RunData, variant: VariantRun) -> dict[str, Any]:
    records, counters, facts = run.records[variant.name], variant.counters, variant.facts
    prompt, cached = counters.get("prompt_tokens"), counters.get("prompt_tokens_cached")
    queries, hits = counters.get("prefix_cache_queries"), counters.get("prefix_cache_hits")
    return {
        "variant": variant.name,
        "records": len(records),
        "asking_seconds": variant.asking_seconds or None,
        **_times(records),
        "prompt_tokens": prompt,
        "computed_tokens": counters.get("prompt_tokens_computed"),
        "cached_share": cached / prompt if prompt and cached is not None else None,
        "hit_share": hits / queries if queries and hits is not None else None,
        "generation_tokens": counters.get("generation_tokens"),
        "preemptions": counters.get("preemptions"),
        "capacity_tokens": facts.kv_capacity_tokens,
        "capacity_ratio": facts.kv_capacity_ratio,
        "emulated": facts.is_emulated,
        "retried": int((records["attempts"] > 1).sum()) if len(records) else 0,
    }


def _times(records: pd.DataFrame) -> dict[str, Any]:
    return {
        "n": len(records),
        "ttft_ms": _quantile(records["ttft_ms"], 0.5),
        "ttft_p95_ms": _quantile(records["ttft_ms"], 0.95),
        "itl_ms": _quantile(records["itl_ms"], 0.5),
        "itl_p95_ms": _quantile(records["itl_ms"], 0.95),
    }


def _quantile(values: pd.Series, share: float) -> float | None:
    known = pd.to_numeric(values, errors="coerce").dropna()
    return float(known.quantile(share)) if len(known) else None


@dataclass(frozen=True, slots=True)
class Costs:
    rows: list[dict[str, Any]]
    times: list[dict[str, Any]]
    capacities: list[dict[str, Any]]


SECTION = Section("Cost", 50, lambda run, _: Costs(cost_table(run), times_table(run), capacity_table(run)))
