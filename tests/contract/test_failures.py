"""What vLLM says when it does not start, as `kveval.engines.vllm.failures` reads it."""

from __future__ import annotations

import pytest
from support.vllm_source import VLLMSource

from kveval.engines.vllm.failures import memory_is_held, root_cause, why_it_died

CAUSES = [
    ("platforms/cuda.py", "^Selected backend . is not valid for", "this backend cannot read this cache dtype"),
    ("platforms/rocm.py", "^Selected backend . is not valid for", "this backend cannot read this cache dtype"),
    ("platforms/cuda.py", "^No valid attention backend found for . ", "`kveval memory MODEL --device DEVICE` lists"),
    ("v1/core", "^To serve at least one request with the model's max seq len", "too small"),
    ("v1/core", "^No available memory for the cache blocks", "the weights leave no memory"),
    ("config/model.py", r"^User-specified max_model_len \(.\) is greater", "not made for so many tokens"),
    ("v1/attention/backends/cpu_attn.py", "^FP8 KV cache requires head_size", "has no native FP8 cache"),
    ("v1/attention/backends/cpu_attn.py", "^FP8 KV cache on CPU requires", "has no native FP8 cache"),
    ("v1/attention/backends/triton_attn.py", "^FP8 KV cache is not supported by", "this GPU is too old"),
    ("v1/attention/backends/triton_attn.py", "^bfloat16 KV cache is not supported on", "this GPU is too old"),
    ("v1/worker/utils.py", "^Free memory on device . .*is less than", "something else still holds"),
    ("v1/worker/gpu_worker.py", "^Error in memory profiling", "something else used the device's memory"),
]


@pytest.mark.parametrize(("path", "pattern", "hint"), CAUSES)
def test_a_cause_gets_its_hint(vllm: VLLMSource, path: str, pattern: str, hint: str) -> None:
    said = vllm.says(path, pattern)
    line = f"(EngineCore pid=1) ERROR 12-01 10:00:00 [core.py:1510] ValueError: {said}"
    assert hint in (why_it_died(line, is_starting=True) or "")


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("v1/engine/utils.py", "^Engine core initialization failed"),
        ("v1/engine/utils.py", "^Frontend process failed during engine core initialization"),
        ("v1/executor/multiproc_executor.py", "^WorkerProc initialization failed"),
        ("v1/engine/exceptions.py", "^EngineCore encountered an issue"),
    ],
)
def test_what_follows_from_a_cause_is_none(vllm: VLLMSource, path: str, pattern: str) -> None:
    assert root_cause(f"RuntimeError: {vllm.says(path, pattern)}", is_starting=True) is None


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("v1/engine/core.py", "^EngineCore encountered a fatal error"),
        ("v1/engine/core.py", "^EngineCore failed to start"),
        ("v1/executor/multiproc_executor.py", "^WorkerProc hit an exception"),
        ("v1/executor/multiproc_executor.py", "^WorkerProc failed to start"),
    ],
)
def test_errors_before_the_end_are_not_its_cause(vllm: VLLMSource, path: str, pattern: str) -> None:
    prefix = "(EngineCore pid=1) ERROR 12-01 10:00:00 [core.py:1510] "
    log = f"{prefix}ValueError: survived\n{prefix}{vllm.says(path, pattern)}\n{prefix}ValueError: the cause"
    assert root_cause(log, is_starting=False) == "ValueError: the cause"


def test_memory_that_may_be_released_soon(vllm: VLLMSource) -> None:
    assert memory_is_held(vllm.says("v1/worker/utils.py", "^Free memory on device . .*is less than"))
    assert memory_is_held(vllm.says("v1/worker/gpu_worker.py", "^Error in memory profiling"))
