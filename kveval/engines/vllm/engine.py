"""Launches a vLLM server, watches it, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import re
import signal
import subprocess
import time
from collections import deque
from pathlib import Path
from typing import Any

import httpx
import psutil

from kveval.config.engine_flags import by_flag, flags
from kveval.config.sweep import EngineConfig
from kveval.engines.base import OnStatus
from kveval.engines.client.access import Access
from kveval.engines.installation import Installation
from kveval.engines.plugin.emulation import EmulationSpec
from kveval.engines.plugin.emulation_log import parse_log
from kveval.engines.ports import check_port, free_port
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm import facts as engine_facts
from kveval.errors import EngineError, UsageError
from kveval.run.facts import Facts
from kveval.run.findings import Finding
from kveval.run.storage import storage

_MARK = "KVEVAL_ENGINE_MARK"

_POLL_SECONDS = 0.5
# From SIGTERM to SIGKILL for the server, and from its end to SIGKILL for what it started.
_STOP_SECONDS = 20.0
_STRAGGLER_SECONDS = 5.0

# What the engine says when it dies, and what to do about it.
_HINTS = (
    (r"kveval emulation: refused, (.*)", "the emulation plugin refused to start"),
    (r"Selected backend .* is not valid for this configuration.*", "this backend cannot read this cache dtype"),
    (r"No valid attention backend found.*", "no attention backend of this device reads this cache dtype"),
    (r"To serve at least one request with the model's max seq len.*",
     "the cache is too small for the longest context: raise engine.kv_cache_gib (CPU) or gpu-memory-utilization, "
     "or lower context_lengths"),
    (r"FP8 KV cache (?:on CPU )?requires.*", "this processor or head size has no native FP8 cache; emulate it"),
    (r"(?i)(?:CUDA )?out of memory.*", "lower gpu-memory-utilization or free the device"),
    (r"(?i)address already in use", "engine.port is taken; leave it out to take a free one"),
    (r"operator torchvision::nms does not exist", "`pip uninstall torchvision torchaudio torchcodec`"),
    (r"error: (?:unrecognized arguments|argument)\b.*", "the engine does not know this flag; see engine.args"),
)  # fmt: skip

_STATUS = (
    ("Application startup complete", "ready"),
    ("init engine", "warming up"),
    ("KV cache size", "warming up"),
    ("Loading weights took", "allocating the KV cache"),
    ("Starting to load model", "loading weights"),
    ("Initializing a V1 LLM engine", "starting workers"),
    ("non-default args", "reading the model's configuration"),
)


def _die_with_parent() -> None:
    # A killed kveval cannot stop its engine; the kernel then does (PR_SET_PDEATHSIG, prctl(2)).
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class VLLMEngine:
    """A vLLM server in a process group of its own.

    Args:
        max_model_len: longest prompt plus output it must take, in tokens.
        log_path: the server's output; appended to, so a relaunch keeps the first log.
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
    ) -> None:
        self.variant = variant
        self.model = model
        self.log_path = log_path
        self.base_url = ""
        self._config = config
        self._installation = installation
        self._max_model_len = max_model_len
        self._logprobs = logprobs
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._startup_seconds = 0.0
        self._mark = f"{os.getpid()}-{time.monotonic_ns()}"

    @property
    def _arguments(self) -> dict[str, Any]:
        """kveval's own flags first: a configured flag of the same name wins."""
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
        if self._installation.device.kind == "cpu":
            # Graph compilation costs over a minute of start-up and gains little on CPU.
            arguments["enforce-eager"] = True
        for given in (self._config.args, self.variant.config.engine_args):
            arguments |= by_flag(given)
        return arguments

    def command(self, port: int) -> list[str]:
        return [*self._installation.command, str(self.model), "--port", str(port), *flags(self._arguments)]

    def _environment(self) -> dict[str, str]:
        environment = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            _MARK: self._mark,
        }
        environment.pop("KVEVAL_EMULATE", None)
        if self._installation.device.kind == "cpu":
            environment["VLLM_CPU_KVCACHE_SPACE"] = str(self._config.kv_cache_gib)
            # The harness is idle while the engine computes: no core needs to be set aside for it.
            environment.setdefault("VLLM_CPU_NUM_OF_RESERVED_CPU", "0")
        environment |= self._config.env | self.variant.config.env
        if self.variant.emulate is not None:
            environment |= self._emulation().to_env()
        return environment

    def _emulation(self) -> EmulationSpec:
        emulate = self.variant.emulate
        if emulate is None:
            raise ValueError(f"{self.variant.name} emulates nothing")
        return EmulationSpec.model_validate(emulate.model_dump())

    async def start(self, on_status: OnStatus) -> None:
        port = self._config.port or free_port()
        if self._config.port:
            try:
                check_port(port)
            except UsageError as error:
                raise EngineError(f"{self.variant.name}: {error}") from error
        self.base_url = f"http://127.0.0.1:{port}"
        command = self.command(port)
        with storage(self.log_path):
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            with self.log_path.open("ab") as log:
                log.write(f"$ {' '.join(command)}\n".encode())
                log.flush()
                self._log_start = log.tell()
                started = time.monotonic()
                try:
                    self._process = subprocess.Popen(  # noqa: ASYNC220 - returns at once; the log is its only pipe
                        command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                        start_new_session=True, env=self._environment(), preexec_fn=_die_with_parent,
                    )  # fmt: skip
                except OSError as error:
                    raise EngineError(f"{self.variant.name}: {command[0]} cannot be started: {error}") from error
        try:
            await self._wait_until_healthy(started, on_status)
        except BaseException:
            await self.stop()
            raise
        self._startup_seconds = time.monotonic() - started

    async def _wait_until_healthy(self, started: float, on_status: OnStatus) -> None:
        async with httpx.AsyncClient(base_url=self.base_url, timeout=5) as client:
            while True:
                message = self.exit_message()
                if message:
                    raise EngineError(message, self.log_tail())
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get("/health")).status_code == httpx.codes.OK:
                        return
                if time.monotonic() - started > self._config.startup_timeout_s:
                    raise EngineError(
                        f"{self.variant.name}: not healthy after {self._config.startup_timeout_s:.0f} s "
                        f"(engine.startup_timeout_s); its log: {self.log_path}",
                        self.log_tail(),
                    )
                on_status(self._status())
                await asyncio.sleep(_POLL_SECONDS)

    def _status(self) -> str:
        log = self.log()
        return next((status for marker, status in _STATUS if marker in log), "importing vLLM")

    def log(self) -> str:
        """The log since the last launch."""
        with contextlib.suppress(FileNotFoundError), self.log_path.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode("utf-8", "replace")
        return ""

    def log_tail(self, lines: int = 15) -> str:
        return "\n".join(deque((line for line in self.log().splitlines() if line.strip()), maxlen=lines))

    def exit_message(self) -> str | None:
        if self._process is None:
            return f"{self.variant.name}: the engine is not running"
        code = self._process.poll()
        if code is None:
            return None
        log = self.log()
        for pattern, hint in _HINTS:
            match = re.search(pattern, log)
            if match:
                said = match[0].strip()[:300]
                return f"{self.variant.name}: the engine stopped (exit code {code}): {said}; {hint}"
        errors = [line for line in log.splitlines() if re.search(r"\b\w*(?:Error|Exception)\b: ", line)]
        said = f": {errors[-1].strip()[-300:]}" if errors else ""
        return f"{self.variant.name}: the engine stopped (exit code {code}){said}; its log: {self.log_path}"

    def processes(self) -> list[psutil.Process]:
        process = self._process
        if process is None:
            return []
        with contextlib.suppress(psutil.Error):
            return [psutil.Process(process.pid), *self._family(process)]
        return []

    async def facts(self) -> Facts:
        try:
            async with httpx.AsyncClient(base_url=self.base_url, timeout=30) as client:
                version = (await client.get("/version")).json().get("version")
                metrics_text = (await client.get("/metrics")).text
                models = (await client.get("/v1/models")).json()
        except (httpx.HTTPError, ValueError) as error:
            raise EngineError(
                self.exit_message() or f"{self.variant.name}: the server does not answer: {error!r}", self.log_tail()
            ) from error
        log = self.log()
        emulated = self.variant.emulate is not None
        said = parse_log(log)
        return engine_facts.assemble(
            self.variant,
            version=version,
            metrics_text=metrics_text,
            models=models,
            log=log,
            model=self.model,
            startup_seconds=self._startup_seconds,
            engine_args=self._arguments,
            emulation_label=self._emulation().label() if emulated else None,
            # vLLM logs a plugin that does not load and carries on without it.
            emulation_live=said.is_live and said.requested == self._emulation() if emulated else None,
        )

    def findings(self, facts: Facts, baseline: Facts | None) -> list[Finding]:
        return engine_facts.judge_facts(facts, self.variant, baseline)

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        family = self._family(process)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
        await asyncio.shield(asyncio.to_thread(self._end, process, family))

    def _family(self, process: subprocess.Popen[bytes]) -> list[psutil.Process]:
        """The server's descendants, and what carries its mark though its parent is gone."""
        found: dict[int, psutil.Process] = {}
        with contextlib.suppress(psutil.Error):
            found = {child.pid: child for child in psutil.Process(process.pid).children(recursive=True)}
        for candidate in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if candidate.environ().get(_MARK) == self._mark:
                    found[candidate.pid] = candidate
        found.pop(process.pid, None)
        return list(found.values())

    def _end(self, process: subprocess.Popen[bytes], family: list[psutil.Process]) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_STOP_SECONDS)
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        # Its end is the sign for the others; whoever does not heed it is not asked again.
        _, alive = psutil.wait_procs(family, timeout=_STRAGGLER_SECONDS)
        stragglers = [*{*alive, *self._family(process)}]
        for left in stragglers:
            with contextlib.suppress(psutil.Error):
                left.kill()
        # A killed process is there until the kernel is done with it.
        psutil.wait_procs(stragglers, timeout=_STRAGGLER_SECONDS)
