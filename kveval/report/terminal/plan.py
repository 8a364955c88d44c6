"""Shows the plan of a sweep in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kveval.judge.prediction.prediction import Prediction
from kveval.report.terminal.load import load_plan_table
from kveval.report.terminal.prediction import prediction_lines

_HEAD = ("model", "engine", "device", "prompt_style", "max_model_len")
_CELL_COLUMNS = ("task", "context_length", "samples", "haystacks", "haystack", "expected_score")
_TOTALS = (
    "samples", "haystacks", "prompt_tokens", "prefill_tokens_without_sharing", "prefill_tokens_with_sharing",
    "output_tokens_at_most", "engine_launches", "requests", "of_them_asked_again",
    "of_them_without_prefix_cache", "of_them_forced",
    "prefill_tokens_without_prefix_cache",
)  # fmt: skip
_LABELS = {"context_length": "context", "kv_cache_dtype": "cache dtype"}
_TEXT_COLUMNS = {
    "task",
    "haystack",
    "expected_score",
    "name",
    "role",
    "kv_cache_dtype",
    "storage",
    "emulates",
    "endpoint",
}


def plan_table(plan: Mapping[str, Any]) -> RenderableType:
    """Returns the tables of a plan, as `kveval.plan_sweep` returns it."""
    head = Table(show_header=False, box=None)
    for key in _HEAD:
        head.add_row(key.replace("_", " "), str(plan[key]))
    launched = plan["engine_launches"] > 0
    title = "variants, one engine launch each" if launched else "variants, each on a server that already runs"
    where = "emulates" if launched else "endpoint"
    variants = _rows(title, ("name", "role", "kv_cache_dtype", "storage", where, "samples"), plan["variants"])
    notes = [Text(note) for note in (*plan["notes"], *_without_expected(plan))]
    load = [load_plan_table(plan["load"])] if plan["load"] else []
    cells = _rows("cells", _CELL_COLUMNS, plan["cells"])
    predicted = prediction_lines(Prediction.model_validate(plan["prediction"]))
    return Group(head, variants, *notes, cells, _budgets(plan), _totals(plan), *load, *predicted)


def _rows(title: str, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        label = _LABELS.get(column, column.replace("_", " "))
        table.add_column(label, overflow="fold", justify="left" if column in _TEXT_COLUMNS else "right")
    for row in rows:
        table.add_row(*("" if row[column] is None else str(row[column]) for column in columns))
    return table


def _budgets(plan: Mapping[str, Any]) -> Table:
    shown = [
        {**row, "share of the window": None if row["output_share"] is None else f"{row['output_share']:.1%}"}
        for row in plan["output_budgets"]
    ]
    return _rows("output budgets", ("task", "output_tokens", "share of the window"), shown)


def _without_expected(plan: Mapping[str, Any]) -> list[str]:
    reasons = {cell["task"]: cell["no_expected_score_because"] for cell in plan["cells"]}
    return [f"{task}: greedy score only: {why}" for task, why in reasons.items() if why]


def _totals(plan: Mapping[str, Any]) -> Table:
    totals = Table(show_header=False, box=None)
    for key in _TOTALS:
        totals.add_row(key.replace("_", " "), f"{plan[key]:,}")
    estimate = plan["estimate"]
    duration = "unknown" if estimate["seconds"] is None else _duration(estimate["seconds"])
    totals.add_row("estimate", f"{duration} ({estimate['assumes']})")
    return totals


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
