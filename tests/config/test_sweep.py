from __future__ import annotations

import json
from typing import Any

import pytest

from kveval.config.sweep import SweepConfig, validate_config
from kveval.errors import ConfigError

MINIMAL: dict[str, Any] = {"model": "m", "variants": ["bf16"], "tasks": ["t"], "context_lengths": [512]}


def config(**changes: Any) -> SweepConfig:
    return validate_config(MINIMAL | changes)


def test_yes_is_not_one() -> None:
    with pytest.raises(ConfigError, match="samples: True is not a number"):
        config(samples=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"smaples": 3}, "configuration: unknown key 'smaples'; did you mean 'samples'"),
        ({"engine": {"pythn": "x"}}, r"unknown key 'engine\.pythn'; did you mean 'python'"),
        ({"requests": {"timeout": 3}}, r"unknown key 'requests\.timeout'; did you mean 'timeout_s'"),
        ({"judge": {"margn": 3}}, r"unknown key 'judge\.margn'; did you mean 'margin'"),
        ({"tasks": [{"name": "t", "sample": 3}]}, r"unknown key 'tasks\.0\.sample'; did you mean 'samples'"),
        ({"variants": [{"name": "bf16", "engin_args": {}}]}, r"unknown key 'variants\.0\.engin_args'; did you mean"),
        ({"variants": ["bf16", {"name": "x", "emulate": {"fromat": "int8"}}]}, "did you mean 'format'"),
        ({"variants": ["bf16", {"name": "x", "emulate": {"format": "int9"}}]}, r"variants\.1\.emulate\.format: .*int9"),
        ({"variants": ["bf16", {"name": "a/b", "kv_cache_dtype": "fp8"}]}, "'a/b' is not a variant name; use let"),
        ({"variants": [{"name": "x"}]}, r"variants\.0\.kv_cache_dtype: required, not given"),
        ({"variants": [None]}, r"variants\.0: None is not allowed"),
        ({"variants": [["bf16"]]}, r"variants\.0: \['bf16'\] is not allowed"),
        ({"tasks": ["t", "t"]}, "tasks: t is listed twice"),
        ({"tasks": "t"}, "tasks: 't' is not allowed"),
        ({"context_lengths": [512, "512"]}, "context_lengths: 512 is listed twice"),
        ({"context_lengths": ["4kk"]}, r"context_lengths\.0: '4kk' is not a context length; use"),
        ({"context_lengths": 512}, "context_lengths: 512 is not allowed"),
        ({"baseline": "fp8"}, "baseline: 'fp8' is not among the variants; .*use: bf16"),
        ({"variants": ["fp8"], "baseline": "fp8"}, "baseline: 'fp8' is itself quantized; use"),
        ({"aa_share": float("nan")}, "aa_share: nan is not allowed"),
        ({"aa_share": 1.5}, "aa_share: 1.5 is not allowed; use: 1.0 or less"),
        ({"cold_check": -1}, "cold_check: -1 is not allowed; use: 0 or more"),
        ({"cold_check": 1.5}, "cold_check: 1.5 is not allowed; use: "),
        ({"cold_check": True}, "cold_check: True is not a number"),
        ({"cold_check": "x"}, "cold_check: 'x' is not allowed; use: a whole number"),
        ({"engine": {"args": {"x": [True]}}}, r"engine\.args\.x: \[True\] is not allowed; use: text"),
        ({"engine": {"args": {"x": []}}}, r"engine\.args\.x: \[\] is not allowed; use: text"),
        ({"haystack": "x"}, "haystack: 'x' is not allowed; use: 'essays', 'wikipedia' or 'generated'"),
        ({"engine": {"port": 70000}}, r"engine\.port: 70000 is not allowed"),
        ({"engine": None}, "engine: None is not allowed"),
        ({"requests": {"max_attempts": 0}}, r"requests\.max_attempts: 0 is not allowed"),
    ],
)  # fmt: skip
def test_bad_values_are_named_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        config(**changes)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("key", ["model", "variants", "tasks"])
def test_what_is_required(key: str) -> None:
    with pytest.raises(ConfigError, match=f"configuration: {key}: required, not given"):
        validate_config({name: value for name, value in MINIMAL.items() if name != key})


def test_a_configuration_survives_json() -> None:
    made = config(variants=["bf16", "int8", {"name": "x", "emulate": {"format": "int8", "layers": [3, 1]}}])
    assert validate_config(json.loads(json.dumps(made.model_dump(mode="json")))) == made
