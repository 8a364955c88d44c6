from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from support.launched import FAKE, Maker, gone, marked, start, until

from kveval.engines.process import check_port, free_port
from kveval.errors import EngineError, StorageError, UsageError


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
    assert "the first death" in second.process.log_path.read_text()


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


async def test_a_log_that_cannot_be_written(engine_of: Maker) -> None:
    engine = engine_of()
    engine.process.log_path.parent.write_text("a file where a folder should be")
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


async def test_a_server_that_ignores_signals_while_it_starts_is_ended_within_seconds(
    engine_of: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kveval.engines.process._STOP_SECONDS", 60.0)
    monkeypatch.setattr("kveval.engines.process._STRAGGLER_SECONDS", 60.0)
    engine = engine_of("deaf")
    task = asyncio.create_task(start(engine))
    assert await until(lambda: "deaf now" in engine.process.log())
    asked = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - asked < 8
    assert marked(engine) == []


_PARENT = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from kveval.config.sweep import validate_config
from kveval.engines.variants import Device, resolve
from kveval.engines.base import Installation
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
    print(engine.processes()[0].pid, flush=True)
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


def test_a_free_port_is_free() -> None:
    check_port(free_port())


def test_a_taken_port_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=rf"engine\.port: {port} is taken; use: a free port"):
            check_port(port)
