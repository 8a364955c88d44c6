"""What a reviewer is told about a vLLM server."""

from __future__ import annotations

from typing import Any

import pytest
from support.variants import GPU, NGRAM, configured, resolved, speculating, variant

from kveval.engines.variants import Device, ResolvedVariant, resolve
from kveval.engines.vllm.findings import judge_facts
from kveval.run.facts import Facts


def facts(**changes: Any) -> Facts:
    given: dict[str, Any] = {
        "requested_cache_dtype": "fp8", "effective_cache_dtype": "fp8", "storage": "native", "scales": "calibrated",
        "attention_backend": "CPU_ATTN", "engine_version": "0.32.0", "prefix_caching": True, "skip_layers": "[]",
        "kv_capacity_tokens": 90112, "kv_capacity_ratio": 2.0, "model_dtype": "bfloat16", "execution": "eager",
    }  # fmt: skip
    return Facts.model_validate(given | changes)


BASELINE = facts(
    requested_cache_dtype="bfloat16", effective_cache_dtype="bfloat16", scales="none", kv_capacity_tokens=45050,
    kv_capacity_ratio=None,
)  # fmt: skip


def codes(facts_: Facts, resolved: ResolvedVariant, baseline: Facts | None = BASELINE) -> dict[str, str]:
    return {finding.code: finding.level for finding in judge_facts(facts_, resolved, baseline)}


def test_a_dtype_that_kveval_does_not_know_is_measured_with_a_warning() -> None:
    running = facts(
        device="cuda", requested_cache_dtype="mxfp4", effective_cache_dtype="mxfp4", scales="unknown",
        kv_capacity_ratio=1.1,
    )  # fmt: skip
    new = variant("new", device=Device("cuda"), kv_cache_dtype="mxfp4")
    assert codes(running, new) == {"unknown_format": "warning"}
    (finding,) = judge_facts(running, new, BASELINE)
    assert finding.message == (
        "kveval does not know the cache dtype mxfp4: how its scales are set and how many tokens its cache should hold "
        "are not checked; it holds 1.10 times the baseline's tokens"
    )


@pytest.mark.parametrize(("requested", "quantizes"), [("auto", True), ("bfloat16", False)])
def test_auto_is_what_the_checkpoint_asks_for(requested: str, quantizes: bool) -> None:
    """An explicit dtype wins over the checkpoint's, and some models call bfloat16 auto."""
    running = facts(requested_cache_dtype=requested, effective_cache_dtype="auto", kv_capacity_ratio=None)
    asked = variant("base", "baseline", kv_cache_dtype=requested)
    found = {finding.code: finding for finding in judge_facts(running, asked, None, "fp8")}
    assert ("auto_quantized" in found) == quantizes
    if quantizes:
        assert "makes that FP8 (fp8)" in found["auto_quantized"].message
        assert found["baseline_quantized"].level == "error"
    assert "auto_quantized" not in {finding.code for finding in judge_facts(running, asked, None)}


def test_a_sound_candidate_has_no_findings() -> None:
    assert codes(facts(), variant()) == {}
    assert codes(facts(effective_cache_dtype="fp8_e4m3"), variant()) == {}
    assert codes(BASELINE, variant("bf16", "baseline"), None) == {}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"effective_cache_dtype": "bfloat16"}, {"dtype_mismatch": "error"}),
        ({"effective_cache_dtype": "auto"}, {"dtype_mismatch": "error"}),
        ({"effective_cache_dtype": "fp8_e5m2"}, {"dtype_mismatch": "error"}),
        ({"effective_cache_dtype": None}, {"dtype_unknown": "warning"}),
        ({"kv_capacity_ratio": 1.0}, {"capacity_unchanged": "error"}),
        ({"kv_capacity_ratio": 1.29}, {"capacity_unchanged": "error"}),
        ({"kv_capacity_ratio": 1.3}, {}),
        ({"kv_capacity_ratio": None}, {}),
        ({"attention_backend": "FLASHINFER"}, {"other_backend": "warning"}),
        ({"scales": "1.0"}, {"scales_1": "warning"}),
        ({"skip_layers": "['0', '1']"}, {"skip_layers": "warning"}),
        ({"prefix_caching": False}, {"no_prefix_caching": "warning"}),
        ({"prefix_caching": None}, {}),
        ({"engine_version": "0.31.0"}, {"other_engine_version": "warning"}),
        ({"execution": "graphs"}, {"other_execution": "warning"}),
        ({"max_model_len": 5}, {"other_max_model_len": "warning"}),
    ],
)
def test_findings_of_a_native_candidate(changes: dict[str, Any], expected: dict[str, str]) -> None:
    assert codes(facts(**changes), variant()) == expected


def test_a_cache_the_cpu_engine_corrupts_is_an_error_however_it_was_launched() -> None:
    """A configured command hides the device from planning; the running server shows it."""
    dtype = "int8_per_token_head"
    running = facts(device="cpu", requested_cache_dtype=dtype, effective_cache_dtype=dtype, scales="dynamic")
    assert codes(running, variant("int8", device=Device(None))) == {"cpu_unsupported": "error"}
    assert codes(running.model_copy(update={"device": "cuda"}), variant("int8", device=Device("cuda"))) == {}


@pytest.mark.parametrize(
    ("requested", "changes", "expected"),
    [
        ("bfloat16", {"effective_cache_dtype": "auto"}, {"dtype_auto": "info"}),
        ("bfloat16", {"effective_cache_dtype": "auto", "model_dtype": None}, {"dtype_auto": "warning"}),
        ("bfloat16", {"effective_cache_dtype": "auto", "model_dtype": "float16"}, {"dtype_mismatch": "error"}),
        (
            "bfloat16", {"effective_cache_dtype": "fp8_ds_mla"},
            {"dtype_mismatch": "error", "baseline_quantized": "error"},
        ),
    ],
)  # fmt: skip
def test_a_baseline_whose_model_stores_it_by_another_name(
    requested: str, changes: dict[str, Any], expected: dict[str, str]
) -> None:
    """DeepSeek V3.2 turns bfloat16 into auto, and some GPUs turn that into FP8."""
    running = BASELINE.model_copy(update=changes)
    assert codes(running, variant("plain", "baseline", kv_cache_dtype=requested), None) == expected


def test_fp8_of_sparse_latent_layers_is_stored_as_fp8_ds_mla() -> None:
    assert codes(facts(effective_cache_dtype="fp8_ds_mla"), variant(device=GPU)) == {"dtype_stored_as": "info"}
    assert codes(facts(effective_cache_dtype="nvfp4_ds_mla"), variant(device=GPU)) == {"dtype_mismatch": "error"}


@pytest.mark.parametrize(("stored", "computes"), [("bfloat16", "float16"), ("float16", "bfloat16")])
def test_a_cache_of_another_dtype_than_the_models_is_an_error(stored: str, computes: str) -> None:
    running = BASELINE.model_copy(
        update={"requested_cache_dtype": stored, "effective_cache_dtype": stored, "model_dtype": computes}
    )
    plain = variant("plain", "baseline", kv_cache_dtype=stored)
    assert codes(running, plain, None) == {"dtype_not_the_models": "error"}
    assert codes(running.model_copy(update={"model_dtype": stored}), plain, None) == {}


def test_a_baseline_that_follows_its_model_says_so() -> None:
    running = BASELINE.model_copy(
        update={"requested_cache_dtype": "float16", "effective_cache_dtype": "float16", "model_dtype": "float16"}
    )
    followed = resolve(configured().variant("bf16"), Device("cuda"), "baseline", "float16")
    (finding,) = judge_facts(running, followed, None)
    assert (finding.code, finding.level) == ("follows_model_dtype", "info")
    assert finding.message == "the model computes in float16, so the cache of bf16 is too"


def test_a_quantized_baseline_is_an_error() -> None:
    quantized = facts(requested_cache_dtype="auto", effective_cache_dtype="fp8")
    assert codes(quantized, variant("auto", "baseline"), None) == {"baseline_quantized": "error"}
    plain = facts(requested_cache_dtype="auto", effective_cache_dtype="auto")
    assert codes(plain, variant("auto", "baseline"), None) == {}


def test_an_emulated_variant_saves_no_memory_and_must_be_live() -> None:
    emulated = BASELINE.model_copy(
        update={"storage": "emulated", "emulation": "int8 per_token_head (emulated)", "emulation_live": True,
                "kv_capacity_ratio": 1.0, "scales": "dynamic", "rounded_layers": 30, "unrounded_layers": []}
    )  # fmt: skip
    assert codes(emulated, variant("int8")) == {"emulated": "info"}
    for changes in ({"unrounded_layers": [7, 9]}, {"rounded_layers": None, "unrounded_layers": None}):
        partial = emulated.model_copy(update=changes)
        assert codes(partial, variant("int8")) == {"emulated": "info", "emulation_partial": "error"}
    for live in (False, None):
        dead = emulated.model_copy(update={"emulation_live": live})
        assert codes(dead, variant("int8")) == {"emulated": "info", "emulation_dead": "error"}


@pytest.mark.parametrize(
    ("ratio", "expected", "found"),
    [
        (1.14, 1.14, {}),
        (1.02, 1.14, {"capacity_unchanged": "error"}),
        (1.6, 2.0, {"capacity_unexpected": "warning"}),
        (1.95, 2.0, {}),
        (1.0, 1.0, {}),
        (2.0, None, {}),
    ],
)
def test_capacity_is_compared_with_what_this_model_should_gain(
    ratio: float, expected: float | None, found: dict[str, str]
) -> None:
    findings = judge_facts(facts(kv_capacity_ratio=ratio), variant(), BASELINE, expected_ratio=expected)
    assert {finding.code: finding.level for finding in findings} == found


def test_messages_name_both_sides() -> None:
    findings = judge_facts(facts(effective_cache_dtype="bfloat16", kv_capacity_ratio=1.02), variant(), BASELINE)
    assert [finding.message for finding in findings] == [
        "fp8 was asked for, the server stores bfloat16",
        "the cache holds 1.02 times the baseline's tokens: a native fp8 cache holds about 2.00 times as many",
    ]


@pytest.mark.parametrize(
    ("wanted", "tokens", "method", "finding"),
    [
        (NGRAM, 4, "ngram", None),
        (NGRAM, 4, None, None),
        ({"method": "qwen3_next_mtp", "num_speculative_tokens": 1}, 1, "mtp", None),
        ({"method": "eagle", "model": "/m"}, 3, "eagle", None),
        (None, None, None, None),
        (NGRAM, None, None, ("error", "speculation_off")),
        (NGRAM, 4, "suffix", ("error", "speculation_other")),
        (NGRAM, 3, "ngram", ("error", "speculation_other")),
        (None, 4, "ngram", ("error", "speculation_unasked")),
    ],
)
def test_speculation_that_was_asked_for_and_what_is_in_force(
    wanted: Any, tokens: int | None, method: str | None, finding: tuple[str, str] | None
) -> None:
    variant = resolved(speculating(wanted), device=GPU)[1]
    found = judge_facts(Facts(speculative_tokens=tokens, speculative_method=method), variant, None)
    about_it = [(one.level, one.code) for one in found if one.code.startswith("speculation")]
    assert about_it == ([finding] if finding else [])
