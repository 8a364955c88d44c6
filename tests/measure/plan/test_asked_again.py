from __future__ import annotations

from collections import Counter

import pytest
from support.sweeps import Planner

from kveval.measure.haystacks import group_by_haystack
from kveval.measure.plan.asked_again import aa_sample_ids, cold_samples


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


def test_cold_samples_come_from_every_cell_and_prime_nothing(plan_of: Planner) -> None:
    plan = plan_of(tasks=["niah_single", "niah_multikey"], context_lengths=[512, 1024], cold_check=6)
    chosen = plan.cold_samples
    assert Counter((sample.task, sample.context_length) for sample in chosen) == {
        ("niah_single", 512): 2, ("niah_multikey", 512): 2, ("niah_single", 1024): 1, ("niah_multikey", 1024): 1,
    }  # fmt: skip
    priming = {group.samples[0].sample_id for group in group_by_haystack(plan.samples)}
    assert not priming & {sample.sample_id for sample in chosen}
    assert cold_samples([plan.samples], 6, 0) == chosen
    assert cold_samples([plan.samples], 6, 1) != chosen
    assert len(cold_samples([plan.samples], 0.25, 0)) == 6
    assert cold_samples([plan.samples], 1.0, 0) == cold_samples([plan.samples], 10_000, 0)
    assert cold_samples([plan.samples], 0, 0) == []
    assert len(cold_samples([plan.samples], 10_000, 0)) == len(plan.samples) - len(priming)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_what_was_chosen_stays_chosen_when_samples_are_added(plan_of: Planner, share: float) -> None:
    samples = plan_of(tasks=["niah_single", "niah_multikey"], samples=60).samples
    stages = [samples[:12], samples[12:60], samples[60:]]
    again, cold = [], []
    for end in (1, 2, 3):
        again.append(aa_sample_ids(stages[:end], share))
        cold.append({sample.sample_id for sample in cold_samples(stages[:end], share or 10, 0)})
        asked = [sample for stage in stages[:end] for sample in stage]
        haystacks = len({sample.haystack_id for sample in asked})
        chosen = {sample.haystack_id for sample in asked if sample.sample_id in again[-1]}
        assert len(chosen) == (max(1, round(share * haystacks)) if share else 0)
        assert all((sample.haystack_id in chosen) == (sample.sample_id in again[-1]) for sample in asked)
        if 0 < share < 1:
            assert len(cold[-1]) == round(share * len(asked))
    for smaller, larger in ((0, 1), (1, 2)):
        assert again[smaller] <= again[larger]
        assert cold[smaller] <= cold[larger]
