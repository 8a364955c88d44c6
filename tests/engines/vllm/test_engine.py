"""How a server is launched, watched and stopped: against a stand-in that takes vLLM's flags."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest
from support.launched import FAKE, Maker, start

from kveval.config.engine import flags
from kveval.engines.variants import Device
from kveval.errors import EngineError


def test_flags() -> None:
    arguments = {"max-num-seqs": 8, "enforce_eager": True, "--seed": 0, "off": False, "none": None, "x": "a b"}
    assert flags(arguments) == ["--max-num-seqs", "8", "--enforce-eager", "--seed", "0", "--no-off", "--x", "a b"]


async def test_a_flag_may_have_several_words(engine_of: Maker) -> None:
    args = {"kv-cache-dtype-skip-layers": [0, 1, "sliding_window"], "max-num-seqs": 8}
    command = engine_of(args=args).command(1)
    at = command.index("--kv-cache-dtype-skip-layers")
    assert command[at : at + 5] == ["--kv-cache-dtype-skip-layers", "0", "1", "sliding_window", "--max-num-seqs"]


@pytest.mark.parametrize("off", [{"enable-prefix-caching": False}, {"no_enable_prefix_caching": True}])
async def test_what_kveval_turns_on_can_be_turned_off(engine_of: Maker, off: dict[str, bool]) -> None:
    command = engine_of(args=off).command(1)
    assert "--no-enable-prefix-caching" in command
    assert "--enable-prefix-caching" not in command


async def test_the_command(engine_of: Maker, tmp_path: Path) -> None:
    engine = engine_of(command=("vllm", "serve"), args={"max_num_seqs": 8, "enable-prefix-caching": False})
    assert engine.command(1234) == [
        "vllm", "serve", str(tmp_path), "--port", "1234", "--served-model-name", "kveval", "--host", "127.0.0.1",
        "--kv-cache-dtype", "fp8", "--max-model-len", "600", "--max-logprobs", "20", "--generation-config", "vllm",
        "--no-enable-prefix-caching", "--enable-prompt-tokens-details", "--disable-uvicorn-access-log", "--seed", "0",
        "--enforce-eager", "--max-num-seqs", "8",
    ]  # fmt: skip


async def test_configured_flags_win_however_they_are_spelled(engine_of: Maker) -> None:
    variant = {"name": "fp8", "engine_args": {"max_model_len": 300, "seed": 5}}
    command = engine_of(args={"max-model-len": 400}, variant=variant).command(1)
    assert command.count("--max-model-len") == 1
    assert command[command.index("--max-model-len") + 1] == "300"
    assert command[command.index("--seed") + 1] == "5"


async def test_graphs_are_left_on_where_there_is_a_gpu(engine_of: Maker) -> None:
    assert "--enforce-eager" not in engine_of(device=Device("cuda")).command(1)


async def test_graphs_are_off_where_a_variant_of_the_sweep_is_emulated(engine_of: Maker) -> None:
    assert "--enforce-eager" in engine_of(device=Device("cuda"), is_eager=True).command(1)


async def test_the_environment(engine_of: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVEVAL_EMULATE", "left over")
    environment = engine_of(kv_cache_gib=3, env={"MINE": "1"})._environment()
    assert environment["VLLM_CPU_KVCACHE_SPACE"] == "3"
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["MINE"] == "1"
    assert "KVEVAL_EMULATE" not in environment
    assert "VLLM_CPU_KVCACHE_SPACE" not in engine_of(device=Device("cuda"))._environment()
    emulated = engine_of(variant="int8")._environment()
    assert json.loads(emulated["KVEVAL_EMULATE"])["format"] == "int8"


async def test_the_shell_cannot_hide_what_the_log_says(engine_of: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "WARNING")
    monkeypatch.setenv("VLLM_CONFIGURE_LOGGING", "0")
    monkeypatch.setenv("VLLM_LOGGING_CONFIG_PATH", "/mine.json")
    environment = engine_of()._environment()
    assert environment["VLLM_LOGGING_LEVEL"] == "INFO"
    assert not {"VLLM_CONFIGURE_LOGGING", "VLLM_LOGGING_CONFIG_PATH"} & environment.keys()
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "debug")
    assert engine_of()._environment()["VLLM_LOGGING_LEVEL"] == "DEBUG"


async def test_requests_are_computed_alike_where_that_is_asked_for(engine_of: Maker) -> None:
    assert "VLLM_BATCH_INVARIANT" not in engine_of()._environment()
    engine = engine_of(device=Device("cuda"), is_batch_invariant=True)
    assert engine._environment()["VLLM_BATCH_INVARIANT"] == "1"


async def test_a_server_that_comes_up_late(engine_of: Maker) -> None:
    engine = engine_of("late", says="(EngineCore pid=1) INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0)")
    told = await start(engine)
    assert engine.exit_message() is None
    assert told[-1] == "starting workers"
    assert engine.process.log().startswith("(EngineCore")
    assert engine.process.log_path.read_text().startswith(f"$ {sys.executable} {FAKE} ")


async def test_facts_of_a_running_server(engine_of: Maker) -> None:
    engine = engine_of(says="INFO [cuda.py:1] Using TRITON_ATTN backend.", args={"max-num-seqs": 16})
    await start(engine)
    facts = await engine.facts()
    assert facts.engine_version == "0.32.0"
    assert facts.effective_cache_dtype == facts.requested_cache_dtype == "fp8"
    assert facts.kv_capacity_tokens == 90112
    assert facts.attention_backend == "TRITON_ATTN"
    assert (facts.max_model_len, facts.max_num_seqs) == (600, 16)
    assert facts.scales == "1.0"
    assert facts.startup_seconds is not None
    assert (facts.emulation, facts.emulation_live) == (None, None)


async def test_a_proxy_is_not_asked_for_a_server_of_this_machine(
    engine_of: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    engine = engine_of()
    await start(engine)
    assert (await engine.facts()).engine_version == "0.32.0"


async def test_emulation_that_the_log_does_not_show_is_not_live(engine_of: Maker) -> None:
    engine = engine_of(variant="int8")
    await start(engine)
    facts = await engine.facts()
    assert facts.storage == "emulated"
    assert facts.emulation == "int8 per_token_head (emulated)"
    assert facts.emulation_live is False


async def test_a_server_that_babbles_is_an_engine_error(engine_of: Maker) -> None:
    engine = engine_of("babble")
    await start(engine)
    with pytest.raises(EngineError, match="fp8: the server does not answer: JSONDecodeError"):
        await engine.facts()


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (
            "ValueError: To serve at least one request with the model's max seq len (8192), 9.0 GiB is needed",
            "(9.0 GiB is needed; |)the cache is too small for the longest context: raise engine.kv_cache_gib",
        ),
        (
            "ValueError: Selected backend FLASH_ATTN is not valid for this configuration. Reason: ['kv_cache_dtype']",
            r"Reason: \['kv_cache_dtype'\]; this backend cannot read this cache dtype",
        ),
        (
            "ValueError: No valid attention backend found for cpu with dtype. Reasons: {}",
            "no attention backend of this device reads this cache dtype",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", "lower gpu-memory-utilization or free the device"),
        ("RuntimeError: Out of memory: Killed", "lower gpu-memory-utilization"),
        ("OSError: [Errno 98] Address already in use", "engine.port is taken; leave it out"),
        ("RuntimeError: operator torchvision::nms does not exist", "pip uninstall torchvision"),
        ("api_server.py: error: unrecognized arguments: --nope", "the engine does not know this flag; see engine.args"),
        ("ValueError: the first one counts\nRuntimeError: last", "exit code 1.*: ValueError: the first one counts;"),
        ("nothing readable", r"the engine stopped \(exit code 1\); its log: .*fp8\.log"),
    ],
)
async def test_a_server_that_dies_says_why_and_what_to_do(engine_of: Maker, says: str, message: str) -> None:
    engine = engine_of("dies", says=says)
    with pytest.raises(EngineError, match=message) as caught:
        await start(engine)
    assert str(caught.value).startswith("fp8: the engine stopped (exit code 1)")
    assert "\n" not in str(caught.value)
    assert caught.value.log_tail == says
    assert caught.value.exit_code == 3


async def test_memory_that_is_not_released_yet_is_waited_for_once(
    engine_of: Maker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("kveval.engines.vllm.engine._RELEASE_SECONDS", 0.01)
    held = "ValueError: Free memory on device cuda:0 (10.0/80.0 GiB) on startup is less than desired GPU memory"
    engine = engine_of("held", says=held, env={"FAKE_HELD": str(tmp_path / "held")})
    told = await start(engine)
    assert "waiting for the device's memory" in told
    assert engine.process.log_path.read_text().count(held) == 1
    assert (await engine.facts()).engine_version == "0.32.0"

    still = engine_of("dies", says=held)
    with pytest.raises(EngineError, match="something else still holds the device's memory: stop it"):
        await start(still)
    assert still.process.log_path.read_text().count(held) == 3


async def test_a_port_taken_since_planning_fails_this_variant_alone(engine_of: Maker) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        engine = engine_of(port=other.getsockname()[1])
        with pytest.raises(EngineError, match=r"fp8: engine\.port: \d+ is taken"):
            await start(engine)
