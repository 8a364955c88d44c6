"""Launches one server that several sections share, and sweeps against it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from kveval.config.sweep import SweepConfig
from kveval.engines.base import Installation
from kveval.engines.registry import find_installation
from kveval.engines.vllm.engine import VLLMEngine
from kveval.measure.plan.plan import Plan, make_plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.run.facts import Facts, Finding
from kveval.run.manifest import VariantRun

LONGEST_TOKENS = 4096
_OUTPUT_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Server:
    installation: Installation
    engine: VLLMEngine

    def plan(self, *, context_lengths: list[int], samples: int, questions_per_haystack: int) -> Plan:
        return make_plan(_config(context_lengths, samples, questions_per_haystack), self.installation)

    async def sweep(self, plan: Plan) -> Swept:
        """Runs a sweep as users do, except that the server is not launched again: its prefix cache is emptied."""
        attached = _Attached(self)
        with tempfile.TemporaryDirectory() as out:
            manifest = await sweep(
                plan, Path(out) / "run", resume=False, reporter=SilentReporter(),
                open_engine=lambda *_: attached,
            )  # fmt: skip
        return Swept(manifest.variants[plan.config.baseline], attached.cpu_seconds)

    async def forget_prefixes(self) -> None:
        async with httpx.AsyncClient(base_url=self.engine.base_url, timeout=30) as client:
            (await client.post("/reset_prefix_cache")).raise_for_status()


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep stored about its variant, and the CPU seconds of this process while it asked."""

    run: VariantRun
    cpu_seconds: float


class _Attached:
    """Gives a sweep a server that runs already, where it expects to launch one."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._established = 0.0
        self.cpu_seconds = 0.0
        self.base_url = server.engine.base_url
        self.model_name = server.engine.model_name
        self.log_path = server.engine.process.log_path
        self.access = server.engine.access
        self.forced_results = server.engine.forced_results

    async def start(self, on_status: Callable[[str], None]) -> None:  # noqa: ARG002
        await self._server.forget_prefixes()

    def exit_message(self) -> str | None:
        return self._server.engine.exit_message()

    def processes(self) -> list[psutil.Process]:
        return self._server.engine.processes()

    async def facts(self) -> Facts:
        facts = await self._server.engine.facts()
        # The last call comes right before the first question.
        self._established = time.process_time()
        return facts

    def findings(self, facts: Facts, baseline: Facts | None) -> list[Finding]:
        return self._server.engine.findings(facts, baseline)

    async def stop(self) -> None:
        self.cpu_seconds = time.process_time() - self._established


@asynccontextmanager
async def serve(on_status: Callable[[str], None]) -> AsyncIterator[Server]:
    """Serves SmolLM2 on a BF16 cache."""
    config = _config([1024], samples=1, questions_per_haystack=1)
    installation = find_installation(config.engine)
    plan = make_plan(config, installation)
    with tempfile.TemporaryDirectory() as folder:
        engine = VLLMEngine(
            plan.variants[0],
            config=config.engine,
            installation=installation,
            model=plan.model.path,
            max_model_len=LONGEST_TOKENS + _OUTPUT_TOKENS,
            logprobs=config.requests.logprobs,
            forces=config.requests.forced_decode,
            log_path=Path(folder) / "engine.log",
        )
        try:
            await engine.start(_once(on_status))
            yield Server(installation, engine)
        finally:
            await engine.stop()


def _once(on_status: Callable[[str], None]) -> Callable[[str], None]:
    last = ""

    def changed(status: str) -> None:
        nonlocal last
        if status != last:
            on_status(status)
        last = status

    return changed


def _config(context_lengths: list[int], samples: int, questions_per_haystack: int) -> SweepConfig:
    values: dict[str, Any] = {
        "model": "smollm2",
        "variants": ["bf16"],
        "context_lengths": context_lengths,
        "tasks": ["niah_multikey"],
        "samples": samples,
        "questions_per_haystack": questions_per_haystack,
        "haystack": "generated",
        "aa_share": 0.0,
        # Development mode serves /reset_prefix_cache.
        "engine": {"kv_cache_gib": 1, "env": {"VLLM_SERVER_DEV_MODE": "1"}},
    }
    return SweepConfig.model_validate(values)
