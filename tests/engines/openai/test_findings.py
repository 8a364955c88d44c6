"""What a reviewer is told about a server that kveval did not launch."""

from __future__ import annotations

import pytest
from support.attached import VLLM, facts, variant

from kveval.engines.client.dialect import Dialect
from kveval.engines.openai.findings import judge_attached
from kveval.engines.variants import ResolvedVariant
from kveval.run.facts import Facts
from kveval.run.manifest import Role


def codes(asked: ResolvedVariant, found: Facts, baseline: Facts | None = None) -> dict[str, str]:
    return {finding.code: finding.level for finding in judge_attached(found, asked, baseline)}


def test_a_declared_dtype_is_a_warning_and_never_an_error() -> None:
    asked = variant("q8_0")
    found = facts(asked)
    assert found.effective_cache_dtype == "q8_0"
    assert found.declared == ["effective_cache_dtype"]
    assert codes(asked, found) == {"declared": "warning", "unknown": "warning", "no_metrics": "info"}


def test_nothing_known_and_nothing_declared() -> None:
    asked = variant("auto", "baseline")
    assert codes(asked, facts(asked)) == {"dtype_unknown": "warning", "unknown": "warning", "no_metrics": "info"}


@pytest.mark.parametrize(
    ("requested", "effective", "role", "expected"),
    [
        ("fp8", "fp8_e4m3", "candidate", {}),
        ("bfloat16", "bfloat16", "baseline", {}),
        ("auto", "auto", "baseline", {}),
        ("bfloat16", "auto", "baseline", {"dtype_auto": "warning"}),
        ("fp8", "auto", "candidate", {"dtype_mismatch": "error"}),
        ("fp8", "bfloat16", "candidate", {"dtype_mismatch": "error"}),
        ("auto", "fp8", "baseline", {"baseline_quantized": "error"}),
        ("bfloat16", "fp8", "aa", {"dtype_mismatch": "error", "baseline_quantized": "error", "aa_same_server": "info"}),
        ("int8_per_token_head", "int8_per_token_head", "candidate", {"device_unknown": "warning"}),
    ],
)
def test_the_dtype_the_server_reports(requested: str, effective: str, role: Role, expected: dict[str, str]) -> None:
    asked = variant(requested, role, attention_backend="FLASH_ATTN", scales="dynamic")
    found = facts(asked, VLLM.replace("CACHE", effective), '{"version": "0.32.0"}')
    assert {code: level for code, level in codes(asked, found).items() if code != "declared"} == expected


def test_a_declared_device_settles_what_runs_there() -> None:
    asked = variant("int8_per_token_head", device="cuda")
    assert "device_unknown" not in codes(asked, facts(asked, VLLM.replace("CACHE", "int8_per_token_head")))
    other = variant("q8_0", device="cpu")
    assert "error" not in codes(other, facts(other)).values()


@pytest.mark.parametrize("dtype", ["int8_per_token_head", "q8_0"])
def test_nothing_untrue_is_said_of_a_cache_where_the_device_is_unknown(dtype: str) -> None:
    asked = variant(dtype)
    found = judge_attached(facts(asked, VLLM.replace("CACHE", dtype)), asked, None)
    message = next(finding.message for finding in found if finding.code == "device_unknown")
    assert f"CPU engine corrupts a cache of {dtype}; it stores correctly: bfloat16, float16, fp8, " in message


def test_against_the_baseline() -> None:
    baseline = facts(
        variant("float16", "baseline", attention_backend="a", engine_version="x 1", kv_capacity_tokens=100)
    )
    same = variant("q8_0", attention_backend="a", engine_version="x 1", kv_capacity_tokens=200)
    assert codes(same, facts(same), baseline) == {"declared": "warning", "unknown": "warning", "no_metrics": "info"}
    other = variant("q8_0", attention_backend="b", engine_version="x 2")
    found = facts(other, dialect=Dialect(prompt="text")).model_copy(update={"kv_capacity_ratio": 1.0})
    against = codes(other, found, baseline)
    for code in ("other_backend", "other_engine_version", "other_prompt_form", "capacity_unchanged"):
        assert against[code] == "warning"


@pytest.mark.parametrize(
    ("chat", "dialect", "expected"),
    [
        ("none", Dialect(chats=False, calls_tools=False), {}),
        ("messages", Dialect(chats=False, calls_tools=False), {"no_chat": "error"}),
        ("messages", Dialect(calls_tools=False), {}),
        ("messages", Dialect(unknown_fields=frozenset({"return_token_ids"})), {"no_return_token_ids": "warning"}),
        ("tools", Dialect(calls_tools=False), {"no_tools": "error"}),
        ("tools", Dialect(), {}),
    ],
)
def test_a_chat_endpoint_that_is_counted_on(chat: str, dialect: Dialect, expected: dict[str, str]) -> None:
    asked = variant("float16", "baseline", chat)
    usual = {"declared", "unknown", "no_metrics"}
    found = codes(asked, facts(asked, dialect=dialect))
    assert {code: level for code, level in found.items() if code not in usual} == expected


@pytest.mark.parametrize(("added", "words"), [(1, "1 more tokens"), (-2, "2 fewer tokens")])
def test_prompts_that_arrive_changed(added: int, words: str) -> None:
    asked = variant("float16", "baseline")
    found = judge_attached(facts(asked, dialect=Dialect(prompt="text", added_tokens=added)), asked, None)
    changed = next(finding for finding in found if finding.code == "prompt_changed")
    assert changed.level == "error"
    assert words in changed.message


def test_a_lack_is_told_in_the_servers_words() -> None:
    asked = variant("float16", "baseline", "tools")
    found = judge_attached(
        facts(asked, dialect=Dialect(most_logprobs=0, calls_tools=False)), asked, None,
        {"logprobs": "HTTP 400: not here", "tools": "HTTP 404: no parser"},
    )  # fmt: skip
    messages = {finding.code: finding.message for finding in found}
    assert messages["no_logprobs"] == "the server gives no logprobs: drift is not measured (HTTP 400: not here)"
    assert messages["no_tools"].endswith("when one is required (HTTP 404: no parser)")


@pytest.mark.parametrize(
    ("requested", "role", "expected"),
    [
        ("auto", "baseline", {"auto_quantized": "warning", "baseline_quantized": "error"}),
        (
            "bfloat16",
            "baseline",
            {"auto_quantized": "warning", "dtype_mismatch": "error", "baseline_quantized": "error"},
        ),
        ("auto", "candidate", {"auto_quantized": "warning"}),
        ("fp8", "candidate", {"auto_quantized": "warning"}),
        ("int8_per_token_head", "candidate", {"auto_quantized": "warning", "dtype_mismatch": "error"}),
    ],
)
def test_auto_is_what_the_checkpoint_asks_for(requested: str, role: Role, expected: dict[str, str]) -> None:
    asked = variant(requested, role, attention_backend="FLASH_ATTN", scales="calibrated")
    found = judge_attached(
        facts(asked, VLLM.replace("CACHE", "auto"), '{"version": "0.32.0"}'), asked, None, checkpoint_dtype="fp8"
    )
    assert {finding.code: finding.level for finding in found if finding.code != "declared"} == expected
    message = next(finding.message for finding in found if finding.code == "auto_quantized")
    assert "the checkpoint's own scheme makes that FP8 (fp8)" in message


def test_what_the_server_stores_wins_over_what_the_checkpoint_asks_for() -> None:
    asked = variant("bfloat16", "baseline")
    found = judge_attached(facts(asked, VLLM.replace("CACHE", "bfloat16")), asked, None, checkpoint_dtype="fp8")
    assert not {"auto_quantized", "baseline_quantized"} & {finding.code for finding in found}
    # Nothing is known of a server that says nothing: the checkpoint only hints.
    silent = variant("auto", "baseline")
    found = judge_attached(facts(silent), silent, None, checkpoint_dtype="fp8")
    message = next(finding.message for finding in found if finding.code == "dtype_unknown")
    assert "vLLM makes fp8 for this checkpoint" in message
