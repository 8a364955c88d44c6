"""Reads vLLM's Prometheus metrics. Other servers have none of these names, or copy them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

_COUNTERS = {
    "vllm:prompt_tokens": "prompt_tokens",
    "vllm:prompt_tokens_cached": "prompt_tokens_cached",
    "vllm:generation_tokens": "generation_tokens",
    "vllm:num_preemptions": "preemptions",
    "vllm:prefix_cache_queries": "prefix_cache_queries",
    "vllm:prefix_cache_hits": "prefix_cache_hits",
}
_SPECULATION_COUNTERS = {
    "vllm:spec_decode_num_drafts": "spec_drafts",
    "vllm:spec_decode_num_draft_tokens": "spec_draft_tokens",
    "vllm:spec_decode_num_accepted_tokens": "spec_accepted_tokens",
}
_ACCEPTED_AT = "vllm:spec_decode_num_accepted_tokens_per_pos"
_GAUGES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_usage",
}


def metric_families(metrics_text: str) -> list[Metric]:
    """Parses the text of /metrics. Empty if it is not Prometheus text: other servers answer with pages of their own."""
    try:
        return list(text_string_to_metric_families(metrics_text))
    except (ValueError, IndexError, KeyError):
        return []


def cache_facts(metrics_text: str) -> dict[str, Any]:
    """Returns what ``vllm:cache_config_info`` says, by names of `Facts`. Empty if the server has no such metric."""
    families = [family for family in metric_families(metrics_text) if family.name == "vllm:cache_config_info"]
    if not families or not families[0].samples:
        return {}
    labels = families[0].samples[0].labels
    return {
        "effective_cache_dtype": labels.get("cache_dtype"),
        "kv_capacity_tokens": _whole_number(labels.get("kv_cache_size_tokens", "")),
        "block_size": _whole_number(labels.get("block_size", "")),
        "prefix_caching": {"True": True, "False": False}.get(labels.get("enable_prefix_caching", "")),
        "skip_layers": labels.get("kv_cache_dtype_skip_layers"),
    }


def _whole_number(text: str) -> int | None:
    return int(float(text)) if re.fullmatch(r"\d+(\.\d+)?", text) else None


def counters(metrics_text: str) -> dict[str, float]:
    """Returns the engine's counters by kveval's names. Prompt tokens computed = all minus cached."""
    families = metric_families(metrics_text)
    totals = speculation_counters(families)
    for family in families:
        if family.name in _COUNTERS:
            totals[_COUNTERS[family.name]] = sum(s.value for s in family.samples if s.name.endswith("_total"))
    if "prompt_tokens" in totals and "prompt_tokens_cached" in totals:
        totals["prompt_tokens_computed"] = totals["prompt_tokens"] - totals["prompt_tokens_cached"]
    return totals


def speculation_counters(families: Iterable[Metric]) -> dict[str, float]:
    """Returns the counters of speculative decoding. Empty if the server does not speculate.

    ``spec_drafts`` counts draft steps. ``spec_accepted_at_N`` counts the accepted tokens of one draft position,
    from 0 on.
    """
    totals: dict[str, float] = {}
    for family in families:
        for sample in family.samples:
            if not sample.name.endswith("_total"):
                continue
            if family.name in _SPECULATION_COUNTERS:
                name = _SPECULATION_COUNTERS[family.name]
            elif family.name == _ACCEPTED_AT and sample.labels.get("position", "").isdecimal():
                name = f"spec_accepted_at_{int(sample.labels['position'])}"
            else:
                continue
            totals[name] = totals.get(name, 0.0) + sample.value
    return totals


def gauges(metrics_text: str) -> dict[str, float]:
    """Returns ``running``, ``waiting`` and ``kv_usage`` of the whole server, without those it does not have."""
    # Parsing all of vLLM's metrics takes time that the server needs where both share their cores.
    lines = [line for line in metrics_text.splitlines() if line.startswith(tuple(_GAUGES))]
    found: dict[str, float] = {}
    for family in metric_families("\n".join(lines) + "\n"):
        name = _GAUGES.get(family.name)
        if name:
            found[name] = found.get(name, 0.0) + sum(sample.value for sample in family.samples)
    return found
