"""Starts a server process, watches it, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import httpx
import psutil

from kveval.errors import EngineError, UsageError
from kveval.run.storage import storage

# An environment variable that marks everything a server starts.
MARK = "KVEVAL_ENGINE_MARK"

_POLL_SECONDS = 0.5
# From SIGTERM to SIGKILL for the server, and from its end to SIGKILL for what it started.
_STOP_SECONDS = 20.0
_STRAGGLER_SECONDS = 5.0
# The same for a server that still starts. It has nothing to finish, and often ignores SIGTERM while it imports.
_STOP_STARTING_SECONDS = 3.0
_STRAGGLER_STARTING_SECONDS = 1.0


def _die_with_parent() -> None:
    # A killed kveval cannot stop its engine. The kernel then does it (PR_SET_PDEATHSIG, prctl(2)).
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Explain(Protocol):
    """Says from a server's log why it died and what to do about it. Returns None if the log does not tell."""

    def __call__(self, log: str, *, is_starting: bool) -> str | None: ...


class ServerProcess:
    """One server in its own process group.

    Args:
        name: the variant's name, for messages.
        log_path: the server's output. It is appended to, so that a relaunch keeps the first log.
        explain: says from the log why the server died and what to do about it. None if the log does not tell.

    Attributes:
        startup_seconds: from the launch to a healthy server.
    """

    def __init__(self, name: str, log_path: Path, explain: Explain) -> None:
        self.name = name
        self.log_path = log_path
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.startup_seconds = 0.0
        self._explain = explain
        self._is_starting = False
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    async def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        health_url: str,
        timeout_s: float,
        on_log: Callable[[str], None],
    ) -> None:
        """Returns when `health_url` answers with status 200.

        Args:
            timeout_s: ``engine.startup_timeout_s`` of the configuration.
            on_log: gets the server's log while it starts.

        Raises:
            EngineError: the server cannot be started, dies, or is not healthy in time. Nothing is left running.
        """
        started, self._is_starting = time.monotonic(), True
        with storage(self.log_path):
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            with self.log_path.open("ab") as log:
                log.write(f"$ {' '.join(command)}\n".encode())
                log.flush()
                self._log_start = log.tell()
                try:
                    self._process = subprocess.Popen(  # noqa: ASYNC220 - returns at once; the log is its only pipe
                        command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                        start_new_session=True, env={**environment, MARK: self.mark}, preexec_fn=_die_with_parent,
                    )  # fmt: skip
                except OSError as error:
                    raise EngineError(f"{self.name}: {command[0]} cannot be started: {error}") from error
        try:
            async with asyncio.timeout(timeout_s):
                await self._wait_until_healthy(health_url, on_log)
        except TimeoutError:
            tail, said = self.log_tail(), self._explain(self.log(), is_starting=True)
            await self.stop()
            raise EngineError(
                f"{self.name}: not healthy after {timeout_s:.0f} s (engine.startup_timeout_s){_after(said)}; its log: "
                f"{self.log_path}",
                tail,
            ) from None
        except BaseException:
            await self.stop()
            raise
        self.startup_seconds, self._is_starting = time.monotonic() - started, False

    async def _wait_until_healthy(self, health_url: str, on_log: Callable[[str], None]) -> None:
        # On this machine: no proxy, and no certificates, which take a while to load.
        async with httpx.AsyncClient(timeout=5, trust_env=False, verify=False) as client:  # noqa: S501
            while True:
                message = self.exit_message()
                if message:
                    raise EngineError(message, self.log_tail())
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(health_url)).status_code == httpx.codes.OK:
                        return
                on_log(self.log())
                await asyncio.sleep(_POLL_SECONDS)

    def log(self) -> str:
        """Returns the log since the last launch."""
        with contextlib.suppress(FileNotFoundError), self.log_path.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode("utf-8", "replace")
        return ""

    def log_tail(self, lines: int = 15) -> str:
        return "\n".join(deque((line for line in self.log().splitlines() if line.strip()), maxlen=lines))

    def exit_message(self) -> str | None:
        """Returns why the server is gone and what to do about it, or None while it runs."""
        if self._process is None:
            return f"{self.name}: the engine is not running"
        code = self._process.poll()
        if code is None:
            return None
        said = self._explain(self.log(), is_starting=self._is_starting)
        return f"{self.name}: the engine stopped (exit code {code}){_after(said)}; its log: {self.log_path}"

    def processes(self) -> list[psutil.Process]:
        """Returns the server's process and all it started."""
        process = self._process
        if process is None:
            return []
        with contextlib.suppress(psutil.Error):
            return [psutil.Process(process.pid), *self._family(process)]
        return []

    async def stop(self) -> None:
        """Leaves no process behind. Safe to call twice, or before `start`."""
        process, self._process = self._process, None
        if process is None:
            return
        family = self._family(process)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
        await asyncio.shield(asyncio.to_thread(self._end, process, family))

    def _family(self, process: subprocess.Popen[bytes]) -> list[psutil.Process]:
        """Returns what the server started, and what carries its mark after its parent is gone."""
        found: dict[int, psutil.Process] = {}
        with contextlib.suppress(psutil.Error):
            found = {child.pid: child for child in psutil.Process(process.pid).children(recursive=True)}
        for candidate in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if candidate.environ().get(MARK) == self.mark:
                    found[candidate.pid] = candidate
        found.pop(process.pid, None)
        return list(found.values())

    def _end(self, process: subprocess.Popen[bytes], family: list[psutil.Process]) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_STOP_STARTING_SECONDS if self._is_starting else _STOP_SECONDS)
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        # The end of the server should end the others. What ignores it is killed.
        straggler_seconds = _STRAGGLER_STARTING_SECONDS if self._is_starting else _STRAGGLER_SECONDS
        _, alive = psutil.wait_procs(family, timeout=straggler_seconds)
        stragglers = [*{*alive, *self._family(process)}]
        for left in stragglers:
            with contextlib.suppress(psutil.Error):
                left.kill()
        # A killed process exists until the kernel has cleaned it up.
        psutil.wait_procs(stragglers, timeout=_STRAGGLER_SECONDS)


def _after(said: str | None) -> str:
    return f": {said}" if said else ""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def check_port(port: int) -> None:
    """Raises UsageError if something listens on `port` already."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise UsageError(
                f"engine.port: {port} is taken; use: a free port, or leave the key out to have one chosen"
            ) from error
