"""What vLLM's log says, in the words of vLLM 0.32."""

from __future__ import annotations

import pytest
from support.vllm_logs import CPU_LOG, GPU_LOG

from kveval.engines.vllm.log import log_facts, status_of


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([], "importing vLLM"),
        (["INFO [api_utils.py:286] non-default args: {'port': 1}"], "reading the model's configuration"),
        (["Initializing a V1 LLM engine (v0.32.0)", "Starting to load model /m..."], "loading weights"),
        (["Starting to load model /m...", "Loading weights took 0.28 seconds"], "allocating the KV cache"),
        (["Loading weights took 0.28 seconds", "CPU KV cache size: 45,050 tokens"], "warming up"),
        (["init engine (profile, create kv cache, warmup model) took 0.90 s"], "warming up"),
    ],
)
def test_what_a_starting_server_is_doing(lines: list[str], status: str) -> None:
    assert status_of("\n".join(lines)) == status


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
        ("INFO [rocm.py:850] Using ROCM_ATTN backend out of potential backends: ['ROCM_ATTN'].", "ROCM_ATTN"),
        ("INFO [rocm.py:749] Using TRITON_ATTN backend (selected via --attention-backend).", "TRITON_ATTN"),
        (
            "INFO [rocm.py:840] Found incompatible backend(s) [TURBOQUANT] with decoder. Overriding with ROCM_ATTN out "
            "of potential backends: ['ROCM_ATTN', 'TRITON_ATTN'].",
            "ROCM_ATTN",
        ),
        ("INFO [mimo_v2.py:322] Using FLASH_ATTN_DIFFKV for attention.", "FLASH_ATTN_DIFFKV"),
        ("INFO [quark_moe.py:1651] Using TRITON backend for mxfp4.", None),
        ("INFO [selector.py:131] Using FLASH_ATTN MLA prefill backend.", None),
        ("INFO [mm_encoder_attention.py:372] Using AttentionBackendEnum.FLASH_ATTN for MMEncoderAttention.", None),
        ("INFO [cuda.py:490] Using backend AttentionBackendEnum.FLASH_ATTN for vit attention", None),
    ],
)
def test_backends_in_other_words(line: str, backend: str | None) -> None:
    assert log_facts(line).get("attention_backend") == backend


def test_layers_may_have_several_backends() -> None:
    lines = (
        "INFO [cuda.py:442] Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN'].",
        "INFO [cuda.py:442] Using TURBOQUANT attention backend out of potential backends: ['TURBOQUANT'].",
        "INFO [cuda.py:442] Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN'].",
    )
    assert log_facts("\n".join(lines))["attention_backend"] == "FLASH_ATTN, TURBOQUANT"


@pytest.mark.parametrize(
    ("line", "dtype"),
    [
        ("Using fp8_ds_mla KV cache format for FLASHMLA_SPARSE backend.", "fp8_ds_mla"),
        ("Using DeepSeek's fp8_ds_mla KV cache format.", "fp8_ds_mla"),
        ("Using DeepSeek's nvfp4_ds_mla KV cache format.", "nvfp4_ds_mla"),
        ("Using standard fp8 KV cache format. To use DeepSeek's fp8_ds_mla KV cache format, please set", None),
        ("Using bfloat16 kv-cache for DeepSeekV3.2", None),
    ],
)
def test_the_dtype_that_a_worker_stores(line: str, dtype: str | None) -> None:
    assert (
        log_facts(f"(Worker pid=1) INFO 01-01 00:00:00 [mla_attention.py:529] {line}").get("effective_cache_dtype")
        == dtype
    )


def test_an_empty_log_says_nothing() -> None:
    assert log_facts("") == {}
