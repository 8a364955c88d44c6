"""Engines of a stand-in for vLLM."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import tenacity
from support.launched import FAKE, Maker

from kveval.config.sweep import validate_config
from kveval.engines import process
from kveval.engines.base import Installation
from kveval.engines.variants import Device, resolve
from kveval.engines.vllm.engine import VLLMEngine

CPU = Device("cpu", frozenset({"avx512f"}))


@pytest.fixture(autouse=True)
def _no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.engines.client.client._BACKOFF", tenacity.wait_none())


@pytest.fixture
async def engine_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Maker]:
    """Makes engines of the stand-in and stops them all; `fake` is what it does, `says` what it prints first."""
    monkeypatch.setattr(process, "_POLL_SECONDS", 0.05)
    monkeypatch.setattr(process, "_STOP_SECONDS", 0.3)
    monkeypatch.setattr(process, "_STRAGGLER_SECONDS", 0.3)
    made: list[VLLMEngine] = []

    def make(
        fake: str = "serves",
        *,
        says: str = "",
        variant: Any = "fp8",
        command: tuple[str, ...] = (sys.executable, str(FAKE)),
        device: Device = CPU,
        is_eager: bool = False,
        is_batch_invariant: bool = False,
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
                is_eager=is_eager,
                is_batch_invariant=is_batch_invariant,
                log_path=tmp_path / "engine" / "fp8.log",
            )
        )
        return made[-1]

    yield make
    for engine in made:
        await engine.stop()
