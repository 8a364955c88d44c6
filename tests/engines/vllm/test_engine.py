"""How a server is launched, watched and stopped: against a stand-in that takes vLLM's flags."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import ROOT

from kveval.config.engine_flags import flags
from kveval.config.sweep import validate_config
from kveval.engines.installation import Installation
from kveval.engines.ports import check_port, free_port
from kveval.engines.variants import Device, resolve
from kveval.engines.vllm import engine as vllm
from kveval.engines.vllm.engine import VLLMEngine
from kveval.errors import EngineError, StorageError, UsageError

FAKE = ROOT / "tests" / "support" / "fake_vllm.py"
CPU = Device("cpu", frozenset({"avx512f"}))

Maker = Callable[..., VLLMEngine]


@pytest.fixture
async def engine_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Maker]:
    """Makes engines of the stand-in and stops them all; `fake` is what it does, `says` what it prints first."""
    monkeypatch.setattr(vllm, "_POLL_SECONDS", 0.05)
    monkeypatch.setattr(vllm, "_STOP_SECONDS", 0.3)
    monkeypatch.setattr(vllm, "_STRAGGLER_SECONDS", 0.3)
    made: list[VLLMEngine] = []

    def make(
        fake: str = "serves",
        *,
        says: str = "",
        variant: Any = "fp8",
        command: tuple[str, ...] = (sys.executable, str(FAKE)),
        device: Device = CPU,
        **engine: Any,
    ) -> VLLMEngine:
        env = {"FAKE": fake, "FAKE_SAYS": says, **engine.pop("env", {})}
        config = validate_config(
            {
                "model": "m", "variants": ["bf16"] if variant == "bf16" else ["bf16", variant], "tasks": ["t"],
                "context_lengths": [512], "engine": {"startup_timeout_s": 20.0, "env": env, **engine},
            }
        )  # fmt: skip
        made.append(
            VLLMEngine(
                resolve(config.variants[-1], device, "candidate"),
                config=config.engine,
                installation=Installation(command, device, None, None, None, None, True),
                model=tmp_path,
                max_model_len=600,
                logprobs=20,
                log_path=tmp_path / "engine" / "fp8.log",
            )
        )
        return made[-1]

    yield make
    for engine in made:
        await engine.stop()


def marked(engine: VLLMEngine) -> list[int]:
    """Processes that carry the engine's mark."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(vllm._MARK) == engine._mark:
                found.append(process.pid)
    return found


def gone(pid: int, within_s: float = 5.0) -> bool:
    """Whether a process has ended; a zombie that nobody reaps counts."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


async def until(condition: Callable[[], Any]) -> bool:
    for _ in range(200):
        if condition():
            return True
        await asyncio.sleep(0.05)
    return False


async def start(engine: VLLMEngine) -> list[str]:
    told: list[str] = []
    await engine.start(told.append)
    return told


def test_flags() -> None:
    arguments = {"max-num-seqs": 8, "enforce_eager": True, "--seed": 0, "off": False, "none": None, "x": "a b"}
    assert flags(arguments) == ["--max-num-seqs", "8", "--enforce-eager", "--seed", "0", "--no-off", "--x", "a b"]


@pytest.mark.parametrize("off", [{"enable-prefix-caching": False}, {"no_enable_prefix_caching": True}])
async def test_what_kveval_turns_on_can_be_turned_off(engine_of: Maker, off: dict[str, bool]) -> None:
    command = engine_of(args=off).command(1)
    assert "--no-enable-prefix-caching" in command
    assert "--enable-prefix-caching" not in command


def test_a_free_port_is_free() -> None:
    check_port(free_port())


def test_a_taken_port_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=rf"engine\.port: {port} is taken; allowed: a free port"):
            check_port(port)


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


async def test_a_server_that_comes_up_late(engine_of: Maker) -> None:
    engine = engine_of("late", says="(EngineCore pid=1) INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0)")
    told = await start(engine)
    assert engine.exit_message() is None
    assert told[-1] == "starting workers"
    assert engine.log().startswith("(EngineCore")
    assert engine.log_path.read_text().startswith(f"$ {sys.executable} {FAKE} ")


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
async def test_what_a_starting_server_is_doing(engine_of: Maker, lines: list[str], status: str) -> None:
    engine = engine_of()
    engine.log_path.parent.mkdir()
    engine.log_path.write_text("\n".join(lines))
    assert engine._status() == status


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
        ("ValueError: first\nRuntimeError: the last one counts", "exit code 1.*: RuntimeError: the last one counts;"),
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


async def test_the_end_of_a_long_log_is_shown(engine_of: Maker) -> None:
    engine = engine_of("dies", says="\n\n".join(f"line {number}" for number in range(100)))
    with pytest.raises(EngineError) as caught:
        await start(engine)
    assert caught.value.log_tail.splitlines() == [f"line {number}" for number in range(85, 100)]


async def test_a_relaunch_is_judged_by_its_own_log(engine_of: Maker) -> None:
    first = engine_of("dies", says="RuntimeError: the first death")
    with pytest.raises(EngineError, match="the first death"):
        await start(first)
    second = engine_of("dies", says="RuntimeError: the second death")
    with pytest.raises(EngineError, match="the second death") as caught:
        await start(second)
    assert "first" not in caught.value.log_tail
    assert "the first death" in second.log_path.read_text()


@pytest.mark.parametrize("fake", ["never", "ill"])
async def test_a_server_that_never_gets_healthy_is_given_up_and_stopped(engine_of: Maker, fake: str) -> None:
    engine = engine_of(fake, says="last words", startup_timeout_s=0.6)
    with pytest.raises(EngineError, match=r"fp8: not healthy after 1 s \(engine\.startup_timeout_s\)") as caught:
        await start(engine)
    assert caught.value.log_tail == "last words"
    assert marked(engine) == []


async def test_a_server_that_crashes_later(engine_of: Maker) -> None:
    engine = engine_of("crashes")
    await start(engine)
    assert await until(engine.exit_message)
    assert str(engine.exit_message()).startswith("fp8: the engine stopped (exit code 7)")
    with pytest.raises(EngineError, match="exit code 7"):
        await engine.facts()


async def test_a_command_that_is_no_program(engine_of: Maker) -> None:
    engine = engine_of(command=("/nonexistent/vllm", "serve"))
    with pytest.raises(EngineError, match="fp8: /nonexistent/vllm cannot be started: "):
        await start(engine)


async def test_a_port_taken_since_planning_fails_this_variant_alone(engine_of: Maker) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        engine = engine_of(port=other.getsockname()[1])
        with pytest.raises(EngineError, match=r"fp8: engine\.port: \d+ is taken"):
            await start(engine)


async def test_a_log_that_cannot_be_written(engine_of: Maker) -> None:
    engine = engine_of()
    engine.log_path.parent.write_text("a file where a folder should be")
    with pytest.raises(StorageError, match="not writable"):
        await start(engine)


async def test_stopping_ends_a_whole_stubborn_family(engine_of: Maker) -> None:
    engine = engine_of("family")
    await start(engine)
    family = marked(engine)
    assert len(family) == 3
    await engine.stop()
    assert all(gone(pid) for pid in family)
    assert marked(engine) == []
    assert engine.exit_message() == "fp8: the engine is not running"


async def test_stopping_finds_what_a_crashed_server_left_behind(engine_of: Maker) -> None:
    engine = engine_of("orphan")
    await start(engine)
    assert await until(engine.exit_message)
    assert len(marked(engine)) == 1
    await engine.stop()
    assert marked(engine) == []


async def test_stopping_twice_or_before_the_start_is_harmless(engine_of: Maker) -> None:
    engine = engine_of()
    await engine.stop()
    await start(engine)
    await engine.stop()
    await engine.stop()
    assert marked(engine) == []


async def test_cancelling_the_start_leaves_nothing(engine_of: Maker) -> None:
    engine = engine_of("never")
    task = asyncio.create_task(start(engine))
    assert await until(lambda: marked(engine))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert marked(engine) == []


_PARENT = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from kveval.config.sweep import validate_config
from kveval.engines.variants import Device, resolve
from kveval.engines.installation import Installation
from kveval.engines.vllm.engine import VLLMEngine

async def main():
    config = validate_config({"model": "m", "variants": ["bf16"], "tasks": ["t"], "context_lengths": [512]})
    device = Device("cpu")
    engine = VLLMEngine(
        resolve(config.variants[0], device, "baseline"), config=config.engine,
        installation=Installation((sys.executable, sys.argv[2]), device, None, None, None, None, True),
        model=Path(sys.argv[3]), max_model_len=600, logprobs=0, log_path=Path(sys.argv[3]) / "log",
    )
    await engine.start(lambda text: None)
    print(engine._process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs PR_SET_PDEATHSIG")
def test_a_killed_kveval_takes_its_engine_along(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", _PARENT, str(FAKE.parent.parent), str(FAKE), str(tmp_path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env={**os.environ, "FAKE": "serves"}) as parent:
        assert parent.stdout is not None
        engine = int(parent.stdout.readline())
        assert psutil.pid_exists(engine)
        os.kill(parent.pid, signal.SIGKILL)
    assert gone(engine)
