"""Lines of vLLM's log that `kveval.engines.vllm.log` reads."""

from __future__ import annotations

import pytest
from support.vllm_source import VLLMSource

from kveval.engines.vllm.log import LOGGING, log_facts, scales_are_1, speculative_method, status_of


@pytest.mark.parametrize(
    ("path", "pattern", "values"),
    [
        ("platforms/cuda.py", r"^Using .* backend\.$", ("AttentionBackendEnum.FLASH_ATTN",)),
        ("platforms/cuda.py", r"^Using .* attention backend out of potential backends", ("FLASH_ATTN", "['X']")),
        ("platforms/rocm.py", r"Overriding with . out of potential backends", ("X", "X", "FLASH_ATTN", "['X']")),
        ("model_executor/models/mimo_v2.py", r"^Using .* for attention\.$", ("FLASH_ATTN",)),
    ],
)
def test_the_attention_backend(vllm: VLLMSource, path: str, pattern: str, values: tuple[str, ...]) -> None:
    assert log_facts(vllm.says(path, pattern, *values))["attention_backend"] == "FLASH_ATTN"


@pytest.mark.parametrize(
    ("path", "pattern", "values"),
    [
        ("model_executor/layers/attention/mla_attention.py", r"^Using . KV cache format for . backend",
         ("fp8_ds_mla", "FLASHMLA_SPARSE")),
        ("models/deepseek_v4/attention.py", r"^Using DeepSeek's fp8_ds_mla KV cache format", ()),
    ],
)  # fmt: skip
def test_the_dtype_that_a_worker_stores(vllm: VLLMSource, path: str, pattern: str, values: tuple[str, ...]) -> None:
    assert log_facts(vllm.says(path, pattern, *values))["effective_cache_dtype"] == "fp8_ds_mla"


def test_the_configuration_of_the_engine(vllm: VLLMSource) -> None:
    config = vllm.says("config/vllm.py", r"^model=.*\bdevice_config=")
    names = {part.partition("=")[0].strip() for part in config.split(",")}
    assert {"dtype", "device_config", "enforce_eager", "speculative_config"} <= names
    said = "dtype=torch.bfloat16, device_config=cpu, enforce_eager=True"
    line = vllm.says("v1/engine/core.py", r"^Initializing a V1 LLM engine", "0.32.0", said)
    assert log_facts(line) | {"attention_backend": ""} == {
        "model_dtype": "bfloat16", "device": "cpu", "execution": "eager", "attention_backend": "",
    }  # fmt: skip
    assert status_of(line) == "starting workers"


def test_how_a_speculating_server_names_its_method(vllm: VLLMSource) -> None:
    line = vllm.says("config/speculative.py", r"^SpeculativeConfig\(method=", "'ngram'", "None", "4")
    assert speculative_method(f"speculative_config={line}") == "ngram"


def test_tokens_of_a_step_and_memory_of_the_cache(vllm: VLLMSource) -> None:
    tokens = vllm.says("config/scheduler.py", r"^Chunked prefill is enabled with max_num_batched_tokens=.\.$", 2048)
    memory = vllm.says("v1/worker/gpu_worker.py", r"^Available KV cache memory: . GiB", "12.5")
    assert log_facts(tokens + "\n" + memory) == {"max_num_batched_tokens": 2048, "kv_cache_gib": 12.5}


def test_scales_of_1(vllm: VLLMSource) -> None:
    path = "model_executor/layers/quantization/kv_cache.py"
    assert scales_are_1(vllm.says(path, r"^Using KV cache scaling factor 1\.0 for fp8_e4m3"))


@pytest.mark.parametrize(
    ("path", "pattern", "status"),
    [
        ("v1/engine/core.py", r"^init engine \(profile", "warming up"),
        ("v1/core", r"KV cache size: . tokens", "warming up"),
        ("model_executor/model_loader/default_loader.py", r"^Loading weights took", "allocating the KV cache"),
        ("v1/worker/gpu_model_runner.py", r"^Starting to load model", "loading weights"),
        ("entrypoints", r"^non-default args: ", "reading the model's configuration"),
    ],
)
def test_what_a_starting_server_is_doing(vllm: VLLMSource, path: str, pattern: str, status: str) -> None:
    assert status_of(vllm.says(path, pattern)) == status


@pytest.mark.parametrize("name", LOGGING)
def test_variables_that_change_the_log(vllm: VLLMSource, name: str) -> None:
    vllm.says("envs.py", f"^{name}$")
