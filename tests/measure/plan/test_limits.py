from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.sweeps import Planner

from kveval.errors import ConfigError, PlanError
from kveval.measure.plan.limits import TokenLimit


def test_a_window_stretched_by_a_flag_is_believed(plan_of: Planner) -> None:
    plan = plan_of(engine={"args": {"max-model-len": 9000}}, context_lengths=[8192], samples=1)
    assert plan.samples[0].context_length == 8192


def test_every_variants_own_checkpoint_must_fit(plan_of: Planner, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({"max_position_embeddings": 500}))
    fp8 = {"name": "fp8", "model": str(other)}
    with pytest.raises(PlanError, match=r"512 prompt tokens and 48 output tokens do not fit the window of fp8's"):
        plan_of(variants=["bf16", fp8])
    (other / "config.json").write_text("{}")
    assert plan_of(variants=["bf16", fp8]).models["fp8"].path == other
    with pytest.raises(ConfigError, match=r"variants\.fp8\.model: .* is not a folder"):
        plan_of(variants=["bf16", fp8 | {"model": str(tmp_path / "none")}])


def test_a_server_takes_what_is_forced_as_far_as_its_window_allows(
    plan_of: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kveval.measure.plan.references.opening_of", lambda *_: "word " * 200)
    options = {"variants": ["bf16"], "tasks": ["niah_single"], "samples": 2}
    plan = plan_of(**options)
    longest = max(len(sample.prompt) + plan.references[sample.sample_id].most_tokens for sample in plan.samples)
    assert longest > max(len(sample.prompt) + sample.max_output_tokens for sample in plan.samples)
    assert plan.max_model_len == longest + 8
    assert plan_of(**options, engine={"args": {"max-model-len": 600}}).max_model_len == 600
    assert plan_of(**options, requests={"forced_decode": False}).max_model_len < longest


def test_a_prompt_and_its_output_leave_tokens_to_spare() -> None:
    limit = TokenLimit("max-model-len of fp8", 100)
    limit.check("mine.jsonl line 2", 76, 16)
    with pytest.raises(
        PlanError,
        match=r"^mine\.jsonl line 2: 77 prompt tokens and 16 output tokens do not fit max-model-len of fp8 "
        r"\(100 tokens\); use: up to 76 prompt tokens$",
    ):
        limit.check("mine.jsonl line 2", 77, 16)


def test_an_output_that_does_not_fit_alone_has_no_prompt_to_suggest() -> None:
    with pytest.raises(PlanError, match=r"load\.prompt_lengths: .* the output alone does not fit$"):
        TokenLimit("max-model-len of fp8", 100).check("load.prompt_lengths", 1, 100)
