from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.model_folder import write_safetensors

from kveval.config.sweep import validate_config
from kveval.engines.metrics import cache_facts, counters
from kveval.engines.variants import Device, ResolvedVariant, resolve
from kveval.engines.vllm.facts import Facts, assemble, log_facts, scales_in_force
from kveval.engines.vllm.findings import judge_facts

CPU = Device("cpu", frozenset({"avx512f"}))

# Lines of vLLM 0.32.0 on CPU; the configuration line is shortened in the middle.
CPU_LOG = """\
(EngineCore pid=11886) INFO 11-29 17:22:59 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: \
model='/models/smollm2', speculative_config=None, tokenizer='/models/smollm2', dtype=torch.bfloat16, \
max_seq_len=2104, quantization=None, enforce_eager=True, kv_cache_dtype=fp8, device_config=cpu, seed=0, \
enable_prefix_caching=True, compilation_config={'backend': 'inductor', 'compile_ranges_endpoints': [2048]}
(Worker pid=11709) INFO 11-29 17:22:10 [parallel_state.py:1906] world_size=1 rank=0 local_rank=0 backend=gloo
(EngineCore pid=11687) INFO 11-29 17:22:12 [kv_cache_utils.py:2327] CPU KV cache size: 45,050 tokens, \
Maximum concurrency for 2,104 tokens per request: 21.41x
Triton is installed, but doesn't include CPU backend. Disabling Triton.
"""

GPU_LOG = """\
INFO 01-01 00:00:00 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='/m', \
dtype=torch.float16, enforce_eager=False, kv_cache_dtype=int8_per_token_head, device_config=cuda, seed=0
INFO 01-01 00:00:01 [cuda.py:300] Using TRITON_ATTN attention backend out of potential backends: \
['TRITON_ATTN', 'FLEX_ATTENTION'].
INFO 01-01 00:00:02 [scheduler.py:200] Chunked prefill is enabled with max_num_batched_tokens=8192.
"""

METRICS = """\
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",cache_dtype="fp8",enable_prefix_caching="True",engine="0",\
kv_cache_dtype_skip_layers="[]",kv_cache_max_concurrency="42.8",kv_cache_size_tokens="90112",num_gpu_blocks="704"} 1.0
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="kveval"} 61435.0
# HELP vllm:prompt_tokens_created Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{engine="0",model_name="kveval"} 1.7959728e+09
# HELP vllm:prompt_tokens_cached_total Number of cached prompt tokens.
# TYPE vllm:prompt_tokens_cached_total counter
vllm:prompt_tokens_cached_total{engine="0",model_name="kveval"} 50688.0
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="kveval"} 0.0
# HELP vllm:prefix_cache_hits_total Prefix cache hits, in terms of number of cached tokens.
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="kveval"} 20000.0
vllm:prefix_cache_hits_total{engine="1",model_name="kveval"} 30688.0
"""


def variant(name: str = "fp8", role: str = "candidate", device: Device = CPU, **changes: Any) -> ResolvedVariant:
    given = {"name": name, **changes} if changes else name
    config = validate_config(
        {"model": "m", "variants": ["bf16", given] if name != "bf16" else [given], "tasks": ["t"],
         "context_lengths": [512]}
    )  # fmt: skip
    return resolve(config.variant(name), device, role)


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


def test_the_cache_as_metrics_tell_it() -> None:
    cache = cache_facts(METRICS)
    assert cache["effective_cache_dtype"] == "fp8"
    assert cache["kv_capacity_tokens"] == 90112


def test_counters_are_summed_over_engines() -> None:
    assert counters(METRICS) == {
        "prompt_tokens": 61435.0,
        "prompt_tokens_cached": 50688.0,
        "prompt_tokens_computed": 10747.0,
        "preemptions": 0.0,
        "prefix_cache_hits": 50688.0,
    }


@pytest.mark.parametrize("text", ["", "<html>", "a b c", 'x{y="', 'x{y="z"} nope', "# TYPE", "x{} 1 2 3 4", "\x00"])
def test_pages_that_are_no_metrics_tell_nothing(text: str) -> None:
    assert cache_facts(text) == {}
    assert counters(text) == {}


@given(text=st.text(alphabet='vllm:cache_config_info{}="\\# TYPE\n 1.0', max_size=80))
def test_no_page_raises(text: str) -> None:
    cache_facts(text)
    counters("vllm:" + text)


def test_the_log_on_cpu_names_no_backend() -> None:
    assert log_facts(CPU_LOG) == {
        "model_dtype": "bfloat16", "device": "cpu", "execution": "eager", "attention_backend": "CPU_ATTN",
    }  # fmt: skip


def test_the_log_on_gpu() -> None:
    assert log_facts(GPU_LOG) == {
        "model_dtype": "float16", "device": "cuda", "execution": "graphs", "attention_backend": "TRITON_ATTN",
        "max_num_batched_tokens": 8192,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "backend"),
    [
        ("INFO [cuda.py:1] Using FLASH_ATTN backend.", "FLASH_ATTN"),
        ("INFO [cuda.py:1] Using AttentionBackendEnum.FLASHINFER backend.", "FLASHINFER"),
        ("INFO [x.py:1] Using Triton backend.", None),
        ("INFO [x.py:1] Using LBHNC KV cache layout.", None),
    ],
)
def test_backends_in_other_words(line: str, backend: str | None) -> None:
    assert log_facts(line).get("attention_backend") == backend


def test_an_empty_log_says_nothing() -> None:
    assert log_facts("") == {}


def test_scales_in_force(tmp_path: Path) -> None:
    fp8 = variant("fp8")
    assert scales_in_force(variant("bf16", "baseline"), "bfloat16", tmp_path, "") == "none"
    assert scales_in_force(fp8, "fp8", tmp_path, "") == "1.0"
    assert scales_in_force(fp8, None, tmp_path, "") == "1.0"
    assert scales_in_force(variant("int8", device=Device("cuda")), "int8_per_token_head", tmp_path, "") == "dynamic"
    assert scales_in_force(variant("int8"), "bfloat16", tmp_path, "") == "dynamic"
    fixed = {"format": "fp8_e4m3", "granularity": "per_tensor", "scale": 1.0}
    assert scales_in_force(variant("mine", emulate=fixed), "bfloat16", tmp_path, "") == "1.0"
    unset = {"format": "fp8_e4m3", "granularity": "per_tensor"}
    assert scales_in_force(variant("mine", emulate=unset), "bfloat16", tmp_path, "") == "1.0"
    write_safetensors(tmp_path / "a.safetensors", ["model.layers.0.self_attn.attn.k_scale"])
    assert scales_in_force(fp8, "fp8", tmp_path, "") == "calibrated"
    assert scales_in_force(fp8, "fp8", tmp_path, "WARNING Using KV cache scaling factor 1.0 for fp8_e4m3.") == "1.0"


@pytest.mark.parametrize(
    ("dtype", "scales"),
    [("turboquant_4bit_nc", "dynamic"), ("ultraquant_4bit", "dynamic"), ("nvfp4", "dynamic"), ("fp8_ds_mla", "dynamic"),
     ("mxfp4", "unknown")],
)  # fmt: skip
def test_scales_that_no_checkpoint_holds_are_never_called_1(tmp_path: Path, dtype: str, scales: str) -> None:
    gpu = variant("x", device=Device("cuda"), kv_cache_dtype=dtype)
    # vLLM logs this line for nvfp4 as well, whose blocks have scales of their own.
    assert scales_in_force(gpu, dtype, tmp_path, "Using KV cache scaling factor 1.0 for fp8_e4m3.") == scales


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


def test_a_quantized_baseline_is_an_error() -> None:
    quantized = facts(requested_cache_dtype="auto", effective_cache_dtype="fp8")
    assert codes(quantized, variant("auto", "baseline"), None) == {"baseline_quantized": "error"}
    plain = facts(requested_cache_dtype="auto", effective_cache_dtype="auto")
    assert codes(plain, variant("auto", "baseline"), None) == {}


def test_an_emulated_variant_saves_no_memory_and_must_be_live() -> None:
    emulated = BASELINE.model_copy(
        update={"storage": "emulated", "emulation": "int8 per_token_head (emulated)", "emulation_live": True,
                "kv_capacity_ratio": 1.0, "scales": "dynamic"}
    )  # fmt: skip
    assert codes(emulated, variant("int8")) == {"emulated": "info"}
    for live in (False, None):
        dead = emulated.model_copy(update={"emulation_live": live})
        assert codes(dead, variant("int8")) == {"emulated": "info", "emulation_dead": "error"}


def test_messages_name_both_sides() -> None:
    findings = judge_facts(facts(effective_cache_dtype="bfloat16", kv_capacity_ratio=1.02), variant(), BASELINE)
    assert [finding.message for finding in findings] == [
        "fp8 was asked for, the server stores bfloat16",
        "the cache holds 1.02 times the baseline's tokens: a native fp8 cache holds about 2.0 times as many",
    ]


def test_assembled_from_what_a_real_server_answers(tmp_path: Path) -> None:
    assembled = assemble(
        variant(),
        version="0.32.0",
        metrics_text=METRICS,
        models={"data": [{"id": "kveval", "max_model_len": 2104}]},
        log=CPU_LOG,
        model=tmp_path,
        startup_seconds=33.333,
        engine_args={"max-num-seqs": 64},
        emulation_label=None,
        emulation_live=None,
    )
    assert assembled == Facts(
        engine_version="0.32.0", device="cpu", attention_backend="CPU_ATTN", requested_cache_dtype="fp8",
        effective_cache_dtype="fp8", storage="native", kv_capacity_tokens=90112, block_size=128, scales="1.0",
        prefix_caching=True, execution="eager", max_model_len=2104, max_num_seqs=64, skip_layers="[]",
        model_dtype="bfloat16", startup_seconds=33.3,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("engine_args", "tokens"),
    [({"max-num-batched-tokens": 512}, 512), ({"max_num_batched_tokens": "512"}, 512),
     ({"max-num-batched-tokens": "8k"}, None), ({"max-num-batched-tokens": True}, None)],
)  # fmt: skip
def test_flags_in_words_only_the_engine_understands_are_no_facts(
    tmp_path: Path, engine_args: dict[str, Any], tokens: int | None
) -> None:
    assembled = assemble(
        variant(), version=None, metrics_text="", models={}, log="", model=tmp_path, startup_seconds=1.0,
        engine_args=engine_args, emulation_label=None, emulation_live=None,
    )  # fmt: skip
    assert assembled.max_num_batched_tokens == tokens
    assert assembled.effective_cache_dtype is None
    assert assembled.kv_capacity_tokens is None


def test_what_makes_an_engine_the_same_engine() -> None:
    assert facts().identity() == facts(startup_seconds=1.0, kv_capacity_tokens=1, kv_capacity_ratio=None).identity()
    assert facts().identity() != facts(engine_version="0.33.0").identity()


def test_scales_of_a_checkpoint_that_cannot_be_read_are_not_called_1(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"version https://git-lfs")
    assert scales_in_force(variant("fp8"), "fp8", tmp_path, "") == "unknown"
