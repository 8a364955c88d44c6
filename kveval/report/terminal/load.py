"""The load measurement in a terminal: its plan and its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kveval.report.sections.load.section import LoadedVariant, LoadRow, levels, load_tables
from kveval.report.text import visible
from kveval.run.load_results import LoadDocument

_COLUMNS = ("", "done", "TTFT ms", "95%", "ITL ms", "95%", "tok/s", "x base", "run/wait", "KV %", "preempt")
_GIB = 1 << 30


def load_plan_table(plan: Mapping[str, Any]) -> RenderableType:
    """Shows the plan of a load measurement."""
    table = Table(title="levels, each for every variant", title_justify="left")
    for column in ("level", "requests", "warmup_requests", "prefill_tokens", "output_tokens"):
        table.add_column(column.replace("_", " "), justify="left" if column == "level" else "right")
    for row in plan["levels"]:
        table.add_row(*(value if isinstance(value, str) else f"{value:,}" for value in row.values()))
    totals = Table(show_header=False, box=None)
    totals.add_row("variants", ", ".join(f"{v['name']} ({v['role']}, {v['storage']})" for v in plan["variants"]))
    for key in ("engine_launches", "requests", "prefill_tokens", "output_tokens", "max_model_len"):
        totals.add_row(key.replace("_", " "), f"{plan[key]:,}")
    return Stack(table, totals)


def load_table(document: LoadDocument) -> RenderableType:
    """Shows one table per level, then what a reader must know about each variant."""
    tables = load_tables(document)
    parts: list[RenderableType] = []
    for level in levels(document):
        table = Table(
            title=f"{level.name}, {level.output_tokens} output tokens", title_justify="left", box=None,
            padding=(0, 1, 0, 0), pad_edge=False,
        )  # fmt: skip
        for column in _COLUMNS:
            table.add_column(column, justify="left" if not column else "right", no_wrap=bool(column))
        for row in tables.rows:
            if row.result.level == level:
                table.add_row(*_cells(row))
        parts += [table, Text()]
    return Stack(*parts, *(line for variant in tables.variants for line in _footnotes(variant)))


def _cells(row: LoadRow) -> Iterator[Text]:
    result = row.result
    completed, requests = result.outcomes.get("completed", 0), result.level.requests
    yield Text(visible(row.variant.name), style="bold")
    yield Text(f"{completed}/{requests}", style="" if completed == requests else "bold red")
    for spread, digits in ((result.ttft_ms, 0), (result.itl_ms, 1)):
        for value in (spread.median, spread.p95):
            yield Text("" if value is None else f"{value:,.{digits}f}")
    yield Text(f"{result.output_tokens_per_s:,.1f}")
    ratio = row.ratios and row.ratios["output_tokens_per_s"]
    yield Text("" if ratio is None else f"{ratio:.2f}")
    yield Text("/".join("?" if gauge is None else f"{gauge.peak:g}" for gauge in (result.running, result.waiting)))
    yield Text("" if result.kv_usage_percent is None else f"{result.kv_usage_percent.peak:.0f}")
    yield Text("" if result.preemptions is None else str(result.preemptions))


def _footnotes(loaded: LoadedVariant) -> Iterator[Text]:
    variant, device, resident = loaded.variant, loaded.device_peak_bytes, loaded.rss_peak_bytes
    parts = [
        "" if variant.cold_start_s is None else f"{variant.cold_start_s:.0f} s from launch to first token",
        "" if device is None else f"GPU memory {device / _GIB:.2f} GiB",
        "" if resident is None else f"resident memory up to {resident / _GIB:.2f} GiB",
        "emulated: this is not the speed of the format" if variant.facts.is_emulated else "",
    ]
    yield Text.assemble((visible(variant.name), "bold"), "  ", ", ".join(part for part in parts if part))
    if variant.status != "complete":
        reason = f": {visible(variant.reason)}" if variant.reason else ""
        yield Text(f"    {variant.status}{reason}", style="bold red")
    for finding in loaded.findings:
        if finding.level != "info":
            yield Text(f"    {finding.level}: {visible(finding.message)}", style="yellow")
