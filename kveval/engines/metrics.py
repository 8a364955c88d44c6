"""Reads vLLM's Prometheus metrics. Other servers have none of these names, or copy them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

_PREFIX = "vllm:"
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
_NAMES = _COUNTERS | _SPECULATION_COUNTERS
_ACCEPTED_AT = "vllm:spec_decode_num_accepted_tokens_per_pos"
_GAUGES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_usage",
}


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of one reading of /metrics, by kveval's names.

    Attributes:
        values: what can be read. Prompt tokens computed = all minus cached.
        unreadable: counters whose value counts nothing: NaN, an infinity, or below 0. `values` does not have them.
        started_at: when the server's process started, in Unix seconds. None if it does not say.
    """

    values: dict[str, float] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()
    started_at: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether /metrics has none of vLLM's counters."""
        return not self.values and not self.unreadable


def metric_families(metrics_text: str) -> list[Metric]:
    """Parses vLLM's part of the text of /metrics, without the lines that cannot be parsed.

    Empty if there is none: other servers answer with pages of their own.
    """
    return _read(metrics_text)[0]


# What the parser raises for text that is not Prometheus text.
_UNPARSABLE = (ValueError, IndexError, KeyError, OverflowError)


def _read(metrics_text: str) -> tuple[list[Metric], list[str]]:
    """Returns vLLM's metrics, and the lines about them that cannot be parsed."""
    lines = [line for line in metrics_text.split("\n") if line.removeprefix("# TYPE ").startswith(_PREFIX)]
    try:
        return _parsed(lines), []
    except _UNPARSABLE:
        broken = [line for line in lines if not _is_parsable(line)]
        return _parsed([line for line in lines if line not in broken]), broken


def _parsed(lines: Iterable[str]) -> list[Metric]:
    return list(text_string_to_metric_families("\n".join(lines) + "\n"))


def _is_parsable(line: str) -> bool:
    try:
        _parsed([line])
    except _UNPARSABLE:
        return False
    return True


def cache_facts(metrics_text: str) -> dict[str, Any]:
    """Returns what ``vllm:cache_config_info`` says, by names of `Facts`. Empty if the server has no such metric."""
    families = [family for family in metric_families(metrics_text) if family.name == "vllm:cache_config_info"]
    if not families or not families[0].samples:
        return {}
    labels = families[0].samples[0].labels
    # Data parallel: each engine says what it holds itself (`_setup_engine` in vllm/v1/engine/core_client.py).
    held = [_whole_number(sample.labels.get("kv_cache_size_tokens", "")) for sample in families[0].samples]
    return {
        "effective_cache_dtype": labels.get("cache_dtype"),
        "kv_capacity_tokens": None if None in held else sum(filter(None, held)),
        "block_size": _whole_number(labels.get("block_size", "")),
        "prefix_caching": {"True": True, "False": False}.get(labels.get("enable_prefix_caching", "")),
        "skip_layers": labels.get("kv_cache_dtype_skip_layers"),
    }


def _whole_number(text: str) -> int | None:
    return int(float(text)) if re.fullmatch(r"\d{1,15}(\.\d{1,15})?", text, re.ASCII) else None


def counters(metrics_text: str) -> Counters:
    """Reads the engine's counters, summed over its engines."""
    families, broken = _read(metrics_text)
    found = _summed(_counted(families))
    names = {re.split(r"[{\s]", line, maxsplit=1)[0].removesuffix("_total") for line in broken}
    unreadable = found.unreadable | {_NAMES[name] for name in names & _NAMES.keys()}
    values = {name: value for name, value in found.values.items() if name not in unreadable}
    if "prompt_tokens" in values and "prompt_tokens_cached" in values:
        values["prompt_tokens_computed"] = values["prompt_tokens"] - values["prompt_tokens_cached"]
    return Counters(values, unreadable, _started_at(metrics_text))


def _started_at(metrics_text: str) -> float | None:
    found = re.search(r"^process_start_time_seconds(?:\{[^}\n]*\})? (\S+)", metrics_text, re.MULTILINE)
    try:
        seconds = float(found[1]) if found else math.nan
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None


def speculation_counters(families: Iterable[Metric]) -> dict[str, float]:
    """Returns the counters of speculative decoding. Empty if the server does not speculate.

    ``spec_drafts`` counts draft steps. ``spec_accepted_at_N`` counts the accepted tokens of one draft position,
    from 0 on.
    """
    return _summed((name, value) for name, value in _counted(families) if name.startswith("spec_")).values


def _counted(families: Iterable[Metric]) -> Iterator[tuple[str, float]]:
    for family in families:
        for sample in family.samples:
            if not sample.name.endswith("_total"):
                continue
            name = _NAMES.get(family.name)
            position = sample.labels.get("position", "")
            if family.name == _ACCEPTED_AT and re.fullmatch(r"\d{1,4}", position, re.ASCII):
                name = f"spec_accepted_at_{int(position)}"
            if name:
                yield name, sample.value


def _summed(counted: Iterable[tuple[str, float]]) -> Counters:
    values: dict[str, float] = {}
    for name, value in counted:
        # A value that is no count spoils its sum as well: NaN stays NaN.
        values[name] = values.get(name, 0.0) + (_finite(value) if value >= 0 else math.nan)
    unreadable = frozenset(name for name, value in values.items() if not math.isfinite(value))
    return Counters({name: value for name, value in values.items() if name not in unreadable}, unreadable)


def _finite(value: float) -> float:
    """Returns a number as it is, and NaN for a whole number that no float holds."""
    try:
        return float(value)
    except OverflowError:
        return math.nan


def gauges(metrics_text: str) -> dict[str, float]:
    """Returns ``running``, ``waiting`` and ``kv_usage`` of the whole server, without those it does not have.

    A value that is no finite number is left out.
    """
    # Parsing all of vLLM's metrics takes time that the server needs where both share their cores.
    lines = [line for line in metrics_text.split("\n") if line.startswith(tuple(_GAUGES))]
    found: dict[str, list[float]] = {}
    for family in metric_families("\n".join(lines)):
        name = _GAUGES.get(family.name)
        if name:
            found.setdefault(name, []).extend(_finite(sample.value) for sample in family.samples)
    # Several engines have a share of usage each.
    whole = {name: sum(values) / (len(values) if name == "kv_usage" else 1) for name, values in found.items() if values}
    return {name: value for name, value in whole.items() if math.isfinite(value)}
