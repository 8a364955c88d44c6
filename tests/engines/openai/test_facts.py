"""What a server that kveval did not launch says of itself."""

from __future__ import annotations

import pytest
from support.attached import VLLM, facts, variant

from kveval.engines.openai.findings import judge_attached
from kveval.engines.variants import ResolvedVariant
from kveval.run.facts import Facts


def codes(asked: ResolvedVariant, found: Facts, baseline: Facts | None = None) -> dict[str, str]:
    return {finding.code: finding.level for finding in judge_attached(found, asked, baseline)}


def test_what_the_server_says_wins_over_what_is_declared() -> None:
    asked = variant("fp8", kv_capacity_tokens=99, engine_version="mine", attention_backend="FLASHINFER", scales="1.0")
    found = facts(asked, VLLM.replace("CACHE", "fp8"), '{"version": "0.32.0"}')
    assert found.kv_capacity_tokens == 2048
    assert found.engine_version == "vLLM 0.32.0"
    assert found.declared == ["attention_backend", "scales"]
    assert codes(asked, found) == {"declared": "warning", "scales_1": "warning"}


@pytest.mark.parametrize(
    ("dtype", "scales"),
    [("bfloat16", "none"), ("int8_per_token_head", "dynamic"), ("nvfp4", "dynamic"), ("fp8", "unknown"),
     ("mxfp4", "unknown"), ("auto", "unknown")],
)  # fmt: skip
def test_the_cache_dtype_that_vllm_reports_says_where_scales_come_from(dtype: str, scales: str) -> None:
    assert facts(variant("auto"), VLLM.replace("CACHE", dtype)).scales == scales


@pytest.mark.parametrize("body", [None, "", "<html>", "[]", "{}", '{"version": 3}', "null"])
def test_a_version_that_is_none(body: str | None) -> None:
    assert facts(variant("float16"), version=body).engine_version is None


def test_facts_are_read_back() -> None:
    found = facts(variant("q8_0"))
    assert Facts.model_validate(found.model_dump(mode="json")) == found
