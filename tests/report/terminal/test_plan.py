"""The plan of a sweep in a terminal."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from kveval.api.prediction import predict_plan
from kveval.measure.plan.describe import describe
from kveval.measure.plan.plan import Plan
from kveval.report.terminal.plan import _duration, plan_table


def described(plan: Plan) -> dict[str, Any]:
    return {**describe(plan), "load": None, "prediction": predict_plan(plan, None).model_dump(mode="json")}


def test_the_table_says_what_the_data_says(plan_of: Callable[..., Plan]) -> None:
    plan = described(plan_of(variants=["bf16", "int8"]))
    out = io.StringIO()
    Console(file=out, width=140).print(plan_table(plan))
    text = out.getvalue()
    for variant in plan["variants"]:
        assert variant["name"] in text
    assert "int8 per_token_head" in text
    assert f"{plan['prefill_tokens_with_sharing']:,}" in text
    assert plan["model"] in text


@pytest.mark.parametrize(("seconds", "text"), [(30, "0.5 minutes"), (5399, "90.0 minutes"), (5400, "1.5 hours")])
def test_a_duration_is_told_in_minutes_or_hours(seconds: float, text: str) -> None:
    assert _duration(seconds) == text


def test_the_plan_says_which_tasks_have_an_expected_score(plan_of: Callable[..., Plan]) -> None:
    plan = described(plan_of(requests={"forced_decode": False}))
    out = io.StringIO()
    Console(file=out, width=160).print(plan_table(plan))
    assert plan["cells"][0]["expected_score"] is None
    assert "niah_single: greedy score only: requests.forced_decode is false" in out.getvalue()
