"""Speed under load: every variant beside the baseline, level by level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kveval.report.section import Section
from kveval.report.text import visible
from kveval.run.load_results import Gauge, Level, LevelResult, LoadDocument, LoadVariant, read_load

LOAD_SUMMARY_VERSION = 1
_COLUMNS = ("", "done", "TTFT ms", "95%", "ITL ms", "95%", "tok/s", "x base", "run/wait", "KV %", "preempt")


def load_summary(document: LoadDocument) -> dict[str, Any]:
    """The figures as strict JSON: ``{version, baseline, complete, variants, rows}``; one row per level and variant.

    Times in milliseconds, median and 95th percentile with their counts. Ratios are to the baseline's row of the same
    level: of times above 1 is slower, of tokens per second above 1 is faster. None stands where nothing was measured.
    """
    return {
        "version": LOAD_SUMMARY_VERSION,
        "baseline": document.baseline,
        "complete": document.is_complete,
        "created": document.created,
        "config": document.config,
        "variants": {name: _describe(variant) for name, variant in document.variants.items()},
        "rows": load_rows(document),
    }


def load_section(run_dir: Path) -> dict[str, Any] | None:
    """`load_summary` of a run directory; None where nothing was measured under load.

    Raises:
        RunDirectoryError: a broken ``load.json``.
    """
    document = read_load(run_dir)
    return None if document is None else load_summary(document)


def load_rows(document: LoadDocument) -> list[dict[str, Any]]:
    baseline = document.variants.get(document.baseline)
    rows = []
    for level in _levels(document):
        reference = baseline.result(level) if baseline else None
        for variant in _baseline_first(document):
            result = variant.result(level)
            if result is not None:
                rows.append(_row(variant, result, None if variant is baseline else reference))
    return rows


def _levels(document: LoadDocument) -> list[Level]:
    """In the order of the first variant that has them."""
    levels: list[Level] = []
    for variant in document.variants.values():
        levels += [result.level for result in variant.levels if result.level not in levels]
    return levels


def _baseline_first(document: LoadDocument) -> list[LoadVariant]:
    return sorted(document.variants.values(), key=lambda variant: variant.name != document.baseline)


def _describe(variant: LoadVariant) -> dict[str, Any]:
    facts = variant.facts
    resident = [r.engine_rss_bytes.peak for r in variant.levels if r.engine_rss_bytes and r.engine_rss_bytes.peak]
    return {
        "role": variant.role,
        "status": variant.status,
        "reason": variant.reason,
        "storage": facts.storage,
        "kv_capacity_tokens": facts.kv_capacity_tokens,
        "kv_capacity_ratio": facts.kv_capacity_ratio,
        "startup_s": variant.startup_s,
        "cold_start_s": variant.cold_start_s,
        "rss_peak_bytes": max(resident, default=None),
        "device_peak_bytes": max((r.device_bytes for r in variant.levels if r.device_bytes), default=None),
        "findings": [
            finding.model_dump()
            for finding in [*variant.findings, *(found for result in variant.levels for found in result.findings)]
        ],
    }


def _row(variant: LoadVariant, result: LevelResult, reference: LevelResult | None) -> dict[str, Any]:
    level = result.level
    return {
        "variant": variant.name,
        "role": variant.role,
        "emulated": variant.facts.is_emulated,
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
        "duration_s": result.duration_s,
        **{key: getattr(result, key).model_dump() for key in ("ttft_ms", "itl_ms", "gap_ms", "latency_ms")},
        "output_tokens_per_s": result.output_tokens_per_s,
        "total_tokens_per_s": result.total_tokens_per_s,
        "requests_per_s": result.requests_per_s,
        **{key: _gauge(getattr(result, key)) for key in ("running", "waiting", "kv_usage_percent", "engine_rss_bytes")},
        "device_bytes": result.device_bytes,
        "preemptions": result.preemptions,
        "prefix_hit_tokens": result.prefix_hit_tokens,
        "ratios": None if reference is None else _ratios(result, reference),
    }


def _gauge(gauge: Gauge | None) -> dict[str, Any] | None:
    return gauge.model_dump() if gauge else None


def _ratios(result: LevelResult, reference: LevelResult) -> dict[str, float | None]:
    pairs = {
        "ttft": (result.ttft_ms.median, reference.ttft_ms.median),
        "itl": (result.itl_ms.median, reference.itl_ms.median),
        "latency": (result.latency_ms.median, reference.latency_ms.median),
        "output_tokens_per_s": (result.output_tokens_per_s, reference.output_tokens_per_s),
    }
    return {name: round(own / base, 3) if own and base else None for name, (own, base) in pairs.items()}


def load_plan_table(plan: Mapping[str, Any]) -> RenderableType:
    """A load measurement's plan for a terminal."""
    levels = Table(title="levels, each for every variant", title_justify="left")
    for column in ("level", "requests", "warmup_requests", "prefill_tokens", "output_tokens"):
        levels.add_column(column.replace("_", " "), justify="left" if column == "level" else "right")
    for row in plan["levels"]:
        levels.add_row(*(value if isinstance(value, str) else f"{value:,}" for value in row.values()))
    totals = Table(show_header=False, box=None)
    totals.add_row("variants", ", ".join(f"{v['name']} ({v['role']}, {v['storage']})" for v in plan["variants"]))
    for key in ("engine_launches", "requests", "prefill_tokens", "output_tokens", "max_model_len"):
        totals.add_row(key.replace("_", " "), f"{plan[key]:,}")
    return Stack(levels, totals)


def load_table(document: LoadDocument) -> RenderableType:
    """For a terminal: one table per level, then what a reader must know."""
    parts: list[RenderableType] = []
    rows = load_rows(document)
    for level in _levels(document):
        table = Table(
            title=f"{level.name}, {level.output_tokens} output tokens", title_justify="left", box=None,
            padding=(0, 1, 0, 0), pad_edge=False,
        )  # fmt: skip
        for column in _COLUMNS:
            table.add_column(column, justify="left" if not column else "right", no_wrap=bool(column))
        for row in rows:
            if row["level"] == level.name:
                table.add_row(*_cells(row))
        parts += [table, Text()]
    return Stack(*parts, *_footnotes(document))


def _cells(row: dict[str, Any]) -> Iterator[Text]:
    yield Text(visible(row["variant"]), style="bold")
    yield Text(f"{row['completed']}/{row['requests']}", style="" if row["completed"] == row["requests"] else "bold red")
    for spread, digits in ((row["ttft_ms"], 0), (row["itl_ms"], 1)):
        for value in (spread["median"], spread["p95"]):
            yield Text("" if value is None else f"{value:,.{digits}f}")
    yield Text(f"{row['output_tokens_per_s']:,.1f}")
    ratio = row["ratios"] and row["ratios"]["output_tokens_per_s"]
    yield Text("" if ratio is None else f"{ratio:.2f}")
    yield Text("/".join("?" if row[key] is None else f"{row[key]['peak']:g}" for key in ("running", "waiting")))
    yield Text("" if row["kv_usage_percent"] is None else f"{row['kv_usage_percent']['peak']:.0f}")
    yield Text("" if row["preemptions"] is None else str(row["preemptions"]))


def _footnotes(document: LoadDocument) -> Iterator[Text]:
    for variant in _baseline_first(document):
        described = _describe(variant)
        cold, device, resident = (described[key] for key in ("cold_start_s", "device_peak_bytes", "rss_peak_bytes"))
        said = [
            "" if cold is None else f"{cold:.0f} s from launch to first token",
            "" if device is None else f"GPU memory {device / 2**30:.2f} GiB",
            "" if resident is None else f"resident memory up to {resident / 2**30:.2f} GiB",
            "emulated: speed is not the format's" if described["storage"] == "emulated" else "",
        ]
        yield Text.assemble((visible(variant.name), "bold"), "  ", ", ".join(part for part in said if part))
        if variant.status != "complete":
            reason = f": {visible(variant.reason)}" if variant.reason else ""
            yield Text(f"    {variant.status}{reason}", style="bold red")
        for finding in described["findings"]:
            if finding["level"] != "info":
                yield Text(f"    {finding['level']}: {visible(finding['message'])}", style="yellow")


SECTION = Section("Under load", 52, lambda run, _: load_section(run.path), part_of="cost")
