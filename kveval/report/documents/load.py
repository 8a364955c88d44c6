"""What `kveval load --json` prints."""

from __future__ import annotations

from typing import Any

from kveval.report.sections.load.section import LoadedVariant, LoadRow, load_tables
from kveval.run.load_results import LoadDocument

LOAD_SUMMARY_VERSION = 1


def load_summary(document: LoadDocument) -> dict[str, Any]:
    """Returns ``{version, baseline, complete, created, config, variants, rows}``: one row per level and variant.

    Times are in milliseconds, median and 95th percentile with their counts. Ratios are to the baseline's row of the
    same level. None stands where nothing was measured.
    """
    tables = load_tables(document)
    variants = {one.variant.name: _variant(one) for one in tables.variants}
    return {
        "version": LOAD_SUMMARY_VERSION,
        "baseline": document.baseline,
        "complete": document.is_complete,
        "created": document.created,
        "config": document.config,
        "variants": {name: variants[name] for name in document.variants},
        "rows": [_row(row) for row in tables.rows],
    }


def _variant(loaded: LoadedVariant) -> dict[str, Any]:
    variant, facts = loaded.variant, loaded.variant.facts
    return {
        "role": variant.role,
        "status": variant.status,
        "reason": variant.reason,
        "storage": facts.storage,
        "kv_capacity_tokens": facts.kv_capacity_tokens,
        "kv_capacity_ratio": facts.kv_capacity_ratio,
        "startup_s": variant.startup_s,
        "cold_start_s": variant.cold_start_s,
        "rss_peak_bytes": loaded.rss_peak_bytes,
        "device_peak_bytes": loaded.device_peak_bytes,
        "findings": [finding.model_dump() for finding in loaded.findings],
    }


_MEASURED = {
    "duration_s", "ttft_ms", "itl_ms", "gap_ms", "latency_ms", "output_tokens_per_s", "total_tokens_per_s",
    "requests_per_s", "running", "waiting", "kv_usage_percent", "engine_rss_bytes", "device_bytes", "preemptions",
    "prefix_hit_tokens",
}  # fmt: skip


def _row(row: LoadRow) -> dict[str, Any]:
    level, result = row.result.level, row.result
    return {
        "variant": row.variant.name,
        "role": row.variant.role,
        "emulated": row.variant.facts.is_emulated,
        "level": level.name,
        "load": level.load,
        "prompt": level.prompt,
        "kind": level.kind,
        "concurrency": level.concurrency,
        "request_rate": level.request_rate,
        "prompt_lengths": level.prompt_lengths,
        "output_tokens_per_request": level.output_tokens,
        "requests": level.requests,
        "completed": result.outcomes.get("completed", 0),
        "outcomes": result.outcomes,
        **result.model_dump(include=_MEASURED),
        "ratios": row.ratios,
    }
