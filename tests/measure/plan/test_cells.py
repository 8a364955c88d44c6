from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kveval.measure.plan.plan import Plan

Planner = Callable[..., Plan]


def test_cells_and_samples(plan_of: Planner) -> None:
    plan = plan_of(
        tasks=["niah_single", {"name": "niah_multikey", "samples": 2, "context_lengths": ["1k"]}],
        context_lengths=[512, 768],
        samples=5,
        questions_per_haystack=2,
    )  # fmt: skip
    assert [(cell.task, cell.context_length, cell.samples, cell.questions_per_haystack) for cell in plan.cells] == [
        ("niah_single", 512, 5, 2),
        ("niah_single", 768, 5, 2),
        ("niah_multikey", 1024, 2, 2),
    ]
    assert Counter((sample.task, sample.context_length) for sample in plan.samples) == {
        ("niah_single", 512): 5,
        ("niah_single", 768): 5,
        ("niah_multikey", 1024): 2,
    }
    assert len({sample.sample_id for sample in plan.samples}) == 12
    assert plan.max_model_len == max(len(s.prompt) + s.max_output_tokens for s in plan.samples) + 8
