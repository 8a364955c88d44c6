from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.model_folder import write_safetensors
from support.variants import variant

from kveval.engines.variants import Device
from kveval.engines.vllm.facts import Facts, assemble, log_facts, scales_in_force, speculation_facts

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
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",cache_dtype="fp8",enable_prefix_caching="True",engine="0",\
kv_cache_dtype_skip_layers="[]",kv_cache_max_concurrency="42.8",kv_cache_size_tokens="90112",num_gpu_blocks="704"} 1.0
"""


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


def test_scales_of_a_checkpoint_that_cannot_be_read_are_not_called_1(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"version https://git-lfs")
    assert scales_in_force(variant("fp8"), "fp8", tmp_path, "") == "unknown"


DRAFTS = """\
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 30.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 20.0
"""
SPECULATING_LOG = "Initializing a V1 LLM engine (v0.32.0) with config: model='m', speculative_config=SpeculativeConfig(\
method='ngram', model=None, num_spec_tokens=2), tokenizer='m'"


def families(text: str) -> list[Any]:
    from prometheus_client.parser import text_string_to_metric_families

    return list(text_string_to_metric_families(text))


def test_speculation_is_established_from_metrics_and_log() -> None:
    found = speculation_facts(families(DRAFTS), SPECULATING_LOG)
    assert found == {"speculative_tokens": 2, "speculative_method": "ngram"}
    assert speculation_facts([], SPECULATING_LOG) == {}
