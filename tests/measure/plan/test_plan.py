from __future__ import annotations

from typing import Any

import pytest
from support.sweeps import Planner

from kveval.config.sweep import validate_config
from kveval.engines.base import Installation
from kveval.errors import ConfigError, PlanError
from kveval.measure.plan.manifest import hash_inputs


def test_planning_twice_is_planning_the_same(plan_of: Planner) -> None:
    first, second = plan_of(), plan_of()
    assert [s.sample_id for s in first.samples] == [s.sample_id for s in second.samples]
    assert [s.sample_id for s in first.samples] != [s.sample_id for s in plan_of(seed=1).samples]
    assert hash_inputs(first) == hash_inputs(second)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"context_lengths": [8192]}, PlanError, r"context_lengths of niah_single: 8192 prompt tokens and 48 output "
         r"tokens do not fit the window of bf16's model \(8192 tokens\); use: up to 8136 prompt tokens"),
        ({"engine": {"args": {"max-model-len": 600}}, "context_lengths": [560]}, PlanError,
         r"do not fit max-model-len of bf16 \(600 tokens\); use: up to 544"),
        ({"variants": ["bf16", {"name": "fp8", "engine_args": {"max_model_len": "600"}}], "context_lengths": [560]},
         PlanError, r"do not fit max-model-len of fp8 \(600 tokens\)"),
        ({"judge": {"margins": {"needel": 0.01}}}, ConfigError,
         r"judge.margins: there is no task family 'needel'; did you mean 'needle'"),
        ({"context_lengths": [64]}, PlanError, r"'niah_single' at context_length 64, haystack 0: .* tokens or more"),
        ({"tasks": ["niah_singel"]}, ConfigError, "unknown task 'niah_singel'; did you mean 'niah_single'"),
        ({"variants": ["bf16", "fp8_per_token_head"]}, PlanError, "vLLM's CPU engine takes "
         r"'fp8_per_token_head' without a check and corrupts its cache; use on CPU: .* or emulated: \{name: NAME"),
        ({"variants": ["bf16", {"name": "x", "emulate": {"format": "int8"}, "control": "emulated"}]}, PlanError,
         "remove `control`"),
        ({"variants": ["bf16", {"name": "bf16-aa", "kv_cache_dtype": "fp8"}], "aa_share": 1.0}, ConfigError,
         "kveval itself adds a variant called 'bf16-aa'; use another name"),
        ({"engine": {"args": {"port": 8000}}}, PlanError, "engine.args: 'port' is set by kveval; use engine.port"),
        ({"variants": ["bf16", {"name": "fp8", "engine_args": {"--kv_cache_dtype": "int8"}}]}, PlanError,
         r"variants\.fp8\.engine_args: '--kv_cache_dtype' is set by kveval; use kv_cache_dtype of a variant"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_refused_before_anything_starts(
    plan_of: Planner, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        plan_of(**changes)
    assert "\n" not in str(caught.value)


def test_a_plan_needs_no_engine_to_run(plan_of: Planner, installation: Installation) -> None:
    plan = plan_of()
    assert plan.installation == installation
    assert validate_config(plan.config.model_dump()) == plan.config
