"""From a configuration to levels and launches."""

from __future__ import annotations

import pytest
from support.loads import OUTPUT_TOKENS, Planner

from kveval.errors import PlanError
from kveval.load.plan import describe_load


def test_what_the_plan_refuses(load_plan: Planner) -> None:
    with pytest.raises(
        PlanError, match=r"load.prompt_lengths: 8192 prompt tokens and 5 output tokens do not fit .*8192 tokens.; use"
    ):
        load_plan({"prompt_lengths": ["8k"]})


def test_the_longest_context_is_what_the_server_takes(load_plan: Planner) -> None:
    assert load_plan().levels[-1].prompt_lengths == [512]
    assert load_plan(engine={"args": {"max-model-len": 4096}}).levels[-1].prompt_lengths == [4096 - 5 - 8]
    assert load_plan({"longest_context": False}).levels[-1].kind == "closed"
    assert len(load_plan({"mixed": False}).levels) == 5


def test_the_baseline_may_be_measured_twice(load_plan: Planner) -> None:
    assert [variant.name for variant in load_plan().variants] == ["bf16", "fp8"]
    assert [variant.name for variant in load_plan({"aa": True}).variants] == ["bf16", "bf16-aa", "fp8"]


def test_nothing_is_forced_under_load(load_plan: Planner) -> None:
    """A processor inside the engine would cost it time."""
    assert not load_plan().config.requests.forced_decode


def test_what_is_described_is_what_will_be_sent(load_plan: Planner) -> None:
    plan = load_plan({"prompt_lengths": [32, 64], "longest_context": False})
    described = describe_load(plan)
    assert [level["level"] for level in described["levels"]][-1] == "closed 3, mixed 32-64 tokens"
    # Three lengths of prompts at two concurrencies, 6 requests and a warm-up each, for two variants.
    assert described["requests"] == 2 * 3 * 2 * (6 + 1)
    assert described["output_tokens"] == described["requests"] * OUTPUT_TOKENS
    assert described["prefill_tokens"] == 2 * 2 * (7 * 32 + 7 * 64 + (3 + 1) * 32 + 3 * 64)
    assert described["engine_launches"] == 2
