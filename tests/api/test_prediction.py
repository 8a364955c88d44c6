"""A plan is told what it can show before anything is launched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kveval.api.prediction import predict_plan
from kveval.measure.plan.plan import Plan


def test_a_small_plan_is_predicted_per_length_and_overall(plan_of: Callable[..., Plan], tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16", "int8"], requests={"forced_decode": False})
    found = predict_plan(plan, tmp_path / "run")
    assert found.rows[-1].context_length is None
    assert found.rows[-1].questions == len(plan.samples)
    assert {row.evidence for row in found.rows} == {"greedy"}
    assert any("cannot pass" in warning and "use samples: " in warning for warning in found.warnings)


def test_a_plan_without_a_folder_is_predicted_too(plan_of: Callable[..., Plan]) -> None:
    assert "a careful default" in predict_plan(plan_of(), None).variances[0]
