"""What is forced is planned with the samples, before an engine starts."""

from __future__ import annotations

import pytest
from support.sweeps import Planner

from kveval.measure.plan.manifest import new_manifest
from kveval.measure.plan.references import why_without


def test_every_sample_whose_task_has_a_reference_is_planned(plan_of: Planner) -> None:
    plan = plan_of(variants=["bf16"], tasks=["niah_single", "niah_absent"], samples=4, context_lengths=[1024])
    assert plan.references.keys() == {sample.sample_id for sample in plan.samples}
    for sample in plan.samples:
        planned = plan.references[sample.sample_id]
        assert len(planned.texts) == len(planned.references.all)
        right = planned.texts[0]
        written = plan.prompt_format.decode(
            token for token, part in zip(right.token_ids, right.parts, strict=True) if part is not None
        )
        wanted = "not stated" if sample.doc["absent"] else sample.doc["answers"][0]
        assert wanted in written


def test_nothing_is_planned_if_nothing_is_to_be_forced(plan_of: Planner) -> None:
    plan = plan_of(variants=["bf16"], tasks=["niah_single"], samples=2, requests={"forced_decode": False})
    assert plan.references == {}
    assert new_manifest(plan).without_reference == {}


def test_a_task_without_references_says_why_once(plan_of: Planner) -> None:
    plan = plan_of(variants=["bf16"], tasks=["niah_single", "coverage_summary"], samples=2, context_lengths=[2048])
    assert set(plan.without_reference.values()) == {"a summary is right in many words"}
    assert new_manifest(plan).without_reference == {"coverage_summary": "a summary is right in many words"}


def test_several_reasons_are_counted(plan_of: Planner) -> None:
    samples = plan_of(variants=["bf16"], tasks=["niah_single"], samples=4).samples
    first, second, third, _ = (sample.sample_id for sample in samples)
    assert why_without(samples, {}) is None
    assert why_without(samples, {first: "a", second: "b", third: "b"}) == "2 of 4: b; 1 of 4: a"


def test_a_model_that_would_think_first_gets_an_empty_block(plan_of: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.measure.plan.references.opening_of", lambda *_: "<think>\n\n</think>\n\n")
    plan = plan_of(variants=["bf16"], tasks=["niah_single"], samples=2)
    for planned in plan.references.values():
        text = planned.texts[0]
        written = plan.prompt_format.decode(text.token_ids)
        assert written.startswith("<think>\n\n</think>\n\n")
        assert text.parts[: len(plan.prompt_format.encode(planned.opening))].count(None) > 0
        assert planned.opening in written
