"""A vLLM server that kveval launches."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import httpx
import psutil

from kveval.config.engine import EngineConfig, by_flag, flags
from kveval.engines.base import Installation, OnStatus, ServerPlan
from kveval.engines.client.access import Access
from kveval.engines.emulation import eager_for
from kveval.engines.plugin import forcing
from kveval.engines.plugin.emulation import EmulationSpec
from kveval.engines.process import ServerProcess, check_port, free_port
from kveval.engines.reading.forced import why_not_forced
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm import batch_invariance
from kveval.engines.vllm import facts as engine_facts
from kveval.engines.vllm.failures import memory_is_held, why_it_died
from kveval.engines.vllm.findings import judge_facts
from kveval.engines.vllm.log import LOG_LEVELS, LOGGING, status_of
from kveval.errors import ConfigError, EngineError, UsageError
from kveval.memory.measured import expected_ratio
from kveval.models.cache_scheme import checkpoint_cache_dtype
from kveval.models.config_file import read_config
from kveval.run.facts import Facts, Finding

# How long to wait for memory that an engine which was stopped has not released yet.
_RELEASE_SECONDS = 30.0


class VLLMEngine:
    """A vLLM server of one variant.

    Args:
        max_model_len: longest prompt plus output it must take, in tokens.
        is_eager: run without graphs.
        is_batch_invariant: compute a request alike in every batch.
        forces: load kveval's processor, which forces outputs.
        log_path: the server's output.
    """

    model_name = "kveval"
    access = Access()

    def __init__(
        self,
        variant: ResolvedVariant,
        *,
        config: EngineConfig,
        installation: Installation,
        model: Path,
        max_model_len: int,
        logprobs: int,
        log_path: Path,
        is_eager: bool = False,
        is_batch_invariant: bool = False,
        forces: bool = False,
    ) -> None:
        self.variant = variant
        self.model = model
        self.base_url = ""
        self.process = ServerProcess(variant.name, log_path, why_it_died)
        self._config = config
        self._installation = installation
        self._max_model_len = max_model_len
        self._logprobs = logprobs
        # Graph compilation costs over a minute of start-up and gains little on CPU.
        self._is_eager = is_eager or installation.device.kind == "cpu"
        self._is_batch_invariant = is_batch_invariant
        self._forces = forces
        self.forced_results: Path | None = None

    @property
    def _arguments(self) -> dict[str, Any]:
        """kveval's own flags, and the configured ones, which win."""
        arguments: dict[str, Any] = {
            "served-model-name": self.model_name,
            "host": "127.0.0.1",
            "kv-cache-dtype": self.variant.kv_cache_dtype,
            "speculative-config": self.variant.config.speculative_config,
            "max-model-len": self._max_model_len,
            "max-logprobs": max(self._logprobs, 1),
            "generation-config": "vllm",
            "enable-prefix-caching": True,
            "enable-prompt-tokens-details": True,
            "disable-uvicorn-access-log": True,
            "seed": 0,
        }
        if self._is_eager:
            arguments["enforce-eager"] = True
        if self._forces:
            arguments["logits-processors"] = forcing.PROCESSOR
        for given in (self._config.args, self.variant.config.engine_args):
            arguments |= by_flag(given)
        return arguments

    def command(self, port: int) -> list[str]:
        return [*self._installation.command, str(self.model), "--port", str(port), *flags(self._arguments)]

    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
        # The shell's settings for a log that people read must not hide the lines that kveval reads.
        level = environment.get("VLLM_LOGGING_LEVEL", "").upper()
        for name in LOGGING:
            environment.pop(name, None)
        environment["VLLM_LOGGING_LEVEL"] = level if level in LOG_LEVELS else LOG_LEVELS[0]
        environment.pop("KVEVAL_EMULATE", None)
        environment.pop(forcing.FOLDER_VARIABLE, None)
        if self.forced_results is not None:
            environment[forcing.FOLDER_VARIABLE] = str(self.forced_results)
        if self._installation.device.kind == "cpu":
            environment["VLLM_CPU_KVCACHE_SPACE"] = str(self._config.kv_cache_gib)
            # kveval is idle while the engine computes: it needs no core of its own.
            environment.setdefault("VLLM_CPU_NUM_OF_RESERVED_CPU", "0")
        if self._is_batch_invariant:
            environment[batch_invariance.VARIABLE] = "1"
        environment |= self._config.env | self.variant.config.env
        spec = self._emulation
        return environment if spec is None else environment | spec.to_env()

    @property
    def _emulation(self) -> EmulationSpec | None:
        emulate = self.variant.emulate
        return None if emulate is None else EmulationSpec.model_validate(emulate.model_dump())

    async def start(self, on_status: OnStatus) -> None:
        if self._forces:
            self.forced_results = Path(tempfile.mkdtemp(prefix="kveval-forced-"))
        try:
            await self._launch(on_status)
        except EngineError:
            if not memory_is_held(self.process.log()):
                raise
            on_status("waiting for the device's memory")
            await asyncio.sleep(_RELEASE_SECONDS)
            await self._launch(on_status)

    async def _launch(self, on_status: OnStatus) -> None:
        port = self._config.port or free_port()
        if self._config.port:
            try:
                check_port(port)
            except UsageError as error:
                raise EngineError(f"{self.variant.name}: {error}") from error
        self.base_url = f"http://127.0.0.1:{port}"
        await self.process.start(
            self.command(port),
            self._environment(),
            health_url=f"{self.base_url}/health",
            timeout_s=self._config.startup_timeout_s,
            on_log=lambda log: on_status(status_of(log)),
        )

    def exit_message(self) -> str | None:
        return self.process.exit_message()

    def processes(self) -> list[psutil.Process]:
        return self.process.processes()

    async def facts(self) -> Facts:
        try:
            async with self.access.http(self.base_url, httpx.Timeout(30)) as client:
                version = (await client.get("/version")).json().get("version")
                metrics_text = (await client.get("/metrics")).text
                models = (await client.get("/v1/models")).json()
        except (httpx.HTTPError, ValueError) as error:
            raise EngineError(
                self.exit_message() or f"{self.variant.name}: the server does not answer: {error!r}",
                self.process.log_tail(),
            ) from error
        return engine_facts.assemble(
            self.variant,
            version=version,
            metrics_text=metrics_text,
            models=models,
            log=self.process.log(),
            model=self.model,
            startup_seconds=self.process.startup_seconds,
            engine_args=self._arguments,
            emulated=self._emulation,
        )

    def findings(self, facts: Facts, baseline: Facts | None) -> list[Finding]:
        return judge_facts(
            facts, self.variant, baseline, checkpoint_cache_dtype(self.model), self._expected_ratio(facts, baseline)
        )

    def _expected_ratio(self, facts: Facts, baseline: Facts | None) -> float | None:
        given = self._arguments
        if baseline is None:
            return None
        if given.get("num-gpu-blocks-override") is not None:
            # The number of blocks is given: the format changes what they take, and not what they hold.
            return 1.0
        ranks = str(given.get("tensor-parallel-size", 1))
        with contextlib.suppress(ConfigError):
            config = read_config(self.model / "config.json")
            return expected_ratio(config, str(self.model), facts, baseline, int(ranks) if ranks.isdigit() else 1)
        return None

    async def stop(self) -> None:
        await self.process.stop()
        if self.forced_results is not None:
            shutil.rmtree(self.forced_results, ignore_errors=True)


def open_vllm(plan: ServerPlan, variant: ResolvedVariant, log_path: Path) -> VLLMEngine:
    model = plan.models[variant.name]
    given = by_flag(plan.config.engine.args) | by_flag(variant.config.engine_args)
    return VLLMEngine(
        variant,
        config=plan.config.engine,
        installation=plan.installation,
        model=model.path,
        max_model_len=plan.max_model_len,
        logprobs=plan.config.requests.logprobs,
        is_batch_invariant=plan.config.engine.batch_invariant
        and batch_invariance.why_not_invariant(variant, model, given, plan.installation.device) is None,
        is_eager=eager_for(plan.variants, plan.installation.device) is not None,
        forces=plan.config.requests.forced_decode and why_not_forced(plan, variant) is None,
        log_path=log_path,
    )
