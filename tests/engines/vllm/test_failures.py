"""Why a server died, from logs as vLLM 0.32 formats them."""

from __future__ import annotations

import pytest

from kveval.engines.vllm.failures import memory_is_held, root_cause, why_it_died

SUMMARY = """\
(APIServer pid=7) Traceback (most recent call last):
(APIServer pid=7)   File "/x/vllm/v1/engine/utils.py", line 1431, in wait_for_engine_startup
(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def engine_log(*errors: str, process: str = "EngineCore pid=9", source: str = "core.py:1510") -> str:
    """A failed start: the engine core logs its traceback, and Python prints it once more."""
    lines = ["EngineCore failed to start.", "Traceback (most recent call last):", *errors]
    logged = "".join(f"({process}) ERROR 11-29 17:22:10 [{source}] {line}\n" for line in lines)
    printed = "".join(f"({process}) {line}\n" for line in ["Process EngineCore:", *lines[1:]])
    return logged + printed + SUMMARY


STARTED = "(EngineCore pid=9) INFO 11-29 17:20:00 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: x\n"
NO_BACKEND = (
    "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=96, "
    "kv_cache_dtype=nvfp4). Reasons: {FLASH_ATTN: [kv_cache_dtype not supported], FLASHINFER: [head_size not "
    "supported]}."
)
HELD = (
    "ValueError: Free memory on device cuda:0 (12.34/79.11 GiB) on startup is less than desired GPU memory utilization "
    "(0.92, 72.78 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
PROFILED = "AssertionError: Error in memory profiling. Initial free memory 60.0 GiB, current free memory 70.0 GiB."
TOO_LONG = (
    "ValueError: To serve at least one request with the model's max seq len (131072), (16.0 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (9.1 GiB)."
)
TRITON = (
    "ValueError: FP8 KV cache is not supported by the Triton attention backend on an A100 (compute capability 8.0); "
    "native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype bfloat16."
)


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (NO_BACKEND, "no attention backend of this device reads this cache dtype with heads of this size"),
        (HELD, "something else still holds the device's memory: stop it"),
        (PROFILED, "something else used the device's memory meanwhile"),
        (TOO_LONG, "the cache is too small for the longest context"),
        (TRITON, "this GPU is too old for this cache dtype; use another dtype, or emulate it"),
        ("ValueError: No available memory for the cache blocks. Try", "the weights leave no memory for the cache"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "lower gpu-memory-utilization"),
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2 GiB", "lower gpu-memory-utilization"),
    ],
)
def test_the_cause_is_named_with_what_to_do(error: str, hint: str) -> None:
    said = why_it_died(STARTED + engine_log(error), is_starting=True)
    assert said is not None
    assert hint in said
    assert "See root cause above" not in said


def test_the_reasons_of_backends_are_shown_and_not_the_configuration() -> None:
    said = why_it_died(engine_log(NO_BACKEND), is_starting=True)
    assert said is not None
    assert said.startswith(
        "No valid attention backend found for cuda. Reasons: {FLASH_ATTN: [kv_cache_dtype not supported], FLASHINFER: "
        "[head_size not supported]}; "
    )


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (engine_log("KeyError: 'rope'"), "KeyError: 'rope'"),
        (
            engine_log("OSError: no such file", process="Worker_TP1 pid=12", source="multiproc_executor.py:953")
            + engine_log("Exception: WorkerProc initialization failed due to an exception in a background process."),
            "OSError: no such file",
        ),
        # The first of two failed ranks.
        (engine_log("ValueError: one", process="Worker_TP0 pid=1") + engine_log("ValueError: two"), "ValueError: one"),
        # Exceptions that were raised one from another: the last of them left the traceback.
        (
            engine_log(
                "KeyError: 'gemma9'",
                "During handling of the above exception, another exception occurred:",
                "ValueError: Transformers does not recognize this architecture",
            ),
            "ValueError: Transformers does not recognize this architecture",
        ),
        (
            "(APIServer pid=7) pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
            "(APIServer pid=7)   Value error, Bfloat16 is only supported on newer GPUs\n",
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig Value error, Bfloat16 is "
            "only supported on newer GPUs",
        ),
        ("WARNING 11-29 17:20:00 [x.py:1] ImportError: no flashinfer\n" + SUMMARY, None),
        ("\x1b[0;36m(Core pid=9)\x1b[0;0m \x1b[31mERROR\x1b[0m 11-29 17:22:10 [core.py:1] KeyError: x", "KeyError: x"),
        (SUMMARY, None),
        ("", None),
    ],
)  # fmt: skip
def test_the_root_cause_is_the_first_error(log: str, cause: str | None) -> None:
    assert root_cause(log, is_starting=True) == cause


def test_a_server_that_ran_has_survived_its_earlier_errors() -> None:
    survived = "(APIServer pid=7) ERROR 11-29 17:20:00 [serving.py:1] ValueError: This request is too long\n"
    fatal = "(EngineCore pid=9) ERROR 11-29 18:00:00 [core.py:1512] EngineCore encountered a fatal error.\n"
    died = "(EngineCore pid=9) ERROR 11-29 18:00:00 [core.py:1512] torch.AcceleratorError: CUDA error: illegal access\n"
    dead = "(APIServer pid=7) ERROR 11-29 18:00:01 [async_llm.py:1] vllm.v1.engine.exceptions.EngineDeadError: x\n"
    assert (
        root_cause(survived + fatal + died + dead, is_starting=False)
        == "torch.AcceleratorError: CUDA error: illegal access"
    )
    assert root_cause(survived + died + dead, is_starting=False) == "torch.AcceleratorError: CUDA error: illegal access"


def test_only_memory_that_was_too_little_is_waited_for() -> None:
    assert memory_is_held(engine_log(HELD))
    assert memory_is_held(engine_log(PROFILED))
    # Every start on a GPU ends with this line.
    assert not memory_is_held(
        "Free memory on device (70.1/79.1 GiB) on startup. Desired GPU memory utilization is (0.92)"
    )
