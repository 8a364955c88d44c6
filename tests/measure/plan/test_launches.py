from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from kveval.measure.plan.plan import Plan

Planner = Callable[..., Plan]


@pytest.mark.parametrize(("share", "haystacks"), [(0.0, 0), (0.01, 1), (0.5, 2), (1.0, 4)])
def test_the_aa_run_asks_whole_haystacks(plan_of: Planner, share: float, haystacks: int) -> None:
    plan = plan_of(samples=12, questions_per_haystack=3, aa_share=share)
    asked = [sample for sample in plan.samples if sample.sample_id in plan.aa_sample_ids]
    assert set(Counter(sample.haystack_id for sample in asked).values()) <= {3}
    assert len({sample.haystack_id for sample in asked}) == haystacks
    again = [variant for variant in plan.variants if variant.role == "aa"]
    assert len(again) == bool(haystacks)
    assert all(plan.samples_of(variant) == asked for variant in again)
    assert plan.samples_of(plan.variants[0]) == plan.samples
