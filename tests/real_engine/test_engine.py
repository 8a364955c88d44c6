"""Launching and stopping a real vLLM server, where it goes wrong."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.processor import ENGINE_ARGS, UNQUANTIZED

from kveval.config.engine import EngineConfig
from kveval.config.variant import VariantConfig
from kveval.engines.base import Installation
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.engine import VLLMEngine
from kveval.engines.vllm.installation import find_vllm
from kveval.errors import EngineError

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment"),
]

MakeEngine = Callable[..., VLLMEngine]


@pytest.fixture(scope="module")
def installation() -> Installation:
    return find_vllm(EngineConfig())


@pytest.fixture
def make_engine(one_engine: None, installation: Installation, smollm2: Path, tmp_path: Path) -> MakeEngine:
    def make(**args: Any) -> VLLMEngine:
        variant = VariantConfig(name="bf16", kv_cache_dtype=UNQUANTIZED)
        return VLLMEngine(
            ResolvedVariant("bf16", variant, UNQUANTIZED, None, "baseline"),
            config=EngineConfig(kv_cache_gib=1, args=ENGINE_ARGS | args),
            installation=installation,
            model=smollm2,
            max_model_len=1024,
            logprobs=20,
            log_path=tmp_path / "engine.log",
        )

    return make


def left_running() -> list[str]:
    """Engines this process started, by the mark they and their children carry."""
    mark = f"{os.getpid()}-"
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("KVEVAL_ENGINE_MARK", "").startswith(mark):
                found.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):
            continue
    return found


async def test_a_cache_too_small_for_the_context_says_what_to_raise(make_engine: MakeEngine) -> None:
    engine = make_engine(**{"num-gpu-blocks-override": 4})
    with pytest.raises(EngineError) as caught:
        await engine.start(lambda _: None)

    assert "To serve at least one request with the model's max seq len" in str(caught.value)
    assert "raise engine.kv_cache_gib" in str(caught.value)
    assert caught.value.log_tail
    assert left_running() == []


async def test_cancelling_a_start_stops_the_whole_family(make_engine: MakeEngine) -> None:
    engine = make_engine()
    forked = asyncio.Event()
    # By then the server has started its engine core, a process of its own.
    start = asyncio.create_task(engine.start(lambda status: forked.set() if status == "starting workers" else None))
    waiting = asyncio.create_task(forked.wait())
    await asyncio.wait({start, waiting}, return_when=asyncio.FIRST_COMPLETED)
    assert len(left_running()) > 1

    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start

    assert left_running() == []
    assert "the engine is not running" in (engine.exit_message() or "")
    await engine.stop()
