"""Runs a program that cannot be trusted, such as one a model wrote, and returns what its function returns.

A hostile program gives a wrong answer and does no harm. It runs in a separate process under these layers, from the
outside in:

- a new session without terminal, environment, input or open files, in an empty folder that is removed afterwards. Its
  output is discarded. The whole process group is killed when time is up or it sends too many results;
- ``limits`` of processor time, memory, file size (0), processes (0) and open files;
- ``network_namespace``, without any interface, where the machine permits one;
- ``unprivileged_user``: root becomes nobody;
- ``no_new_privileges``;
- ``system_calls``: a filter (seccomp) that allows only memory, clocks and open descriptors. The kernel refuses to open
  files and sockets, to start processes and threads, and to send signals to others. Nothing runs without this layer, so
  the sandbox needs Linux on x86_64 or aarch64.

A program cannot forge its verdict. Expected values never enter the process: it returns values as JSON, and the caller
compares them. A program that writes to the channel itself can only send values, right or wrong, like any other.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from kveval.errors import InfrastructureError, PlanError

LAYERS = ("network_namespace", "unprivileged_user", "system_calls")
"""Layers that depend on the machine. The others are always on."""

_JAIL = Path(__file__).with_name("jail.py")
_MACHINES = ("x86_64", "aarch64")
_START_S = 60.0
_END_S = 1.0
_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use.

    Attributes:
        cpu_s: processor seconds, start of the interpreter included.
        wall_s: seconds from the start of the program; many, because the machine may be busy with an engine.
        memory_bytes: address space.
        result_bytes: size of all returned values as JSON.
    """

    cpu_s: int = 2
    wall_s: float = 20.0
    memory_bytes: int = 512 * 1024**2
    result_bytes: int = 65536


@dataclass(frozen=True, slots=True)
class Program:
    """Source to run and what to call.

    Attributes:
        source: defines the function.
        function: name of the function called.
        modules: dotted name -> source of modules it may import. Their names are in its scope without an import too.
    """

    source: str
    function: str
    modules: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Returned:
    """The result of one call: a JSON value, or the reason why there is none."""

    value: Any = None
    error: str | None = None


def call(
    program: Program,
    arguments: Sequence[Sequence[Any]],
    limits: Limits | None = None,
    layers: Sequence[str] = LAYERS,
) -> list[Returned]:
    """Calls a program's function, once for each list of arguments, all in one process.

    Each result holds any error of the program; the program never raises one here.

    Args:
        arguments: positional, JSON values.
        layers: the layers to try, besides those that are always on.

    Raises:
        PlanError: this machine cannot run the program safely, so nothing was run.
        InfrastructureError: the process could not be started. This says nothing about the program.
    """
    _refuse_platform()
    if "system_calls" not in layers:
        raise PlanError("the sandbox runs nothing without its filter of system calls; use: layers with 'system_calls'")
    limits = limits or Limits()
    engaged, lines, end = _run(program, arguments, limits, layers)
    if "system_calls" not in engaged:
        raise PlanError(f"the sandbox has no filter of system calls here, only {', '.join(engaged)}")
    if len(lines) > len(arguments):
        return [Returned(error="more results than calls")] * len(arguments)
    returned = [_returned(line) for line in lines]
    return returned + [Returned(error=end)] * (len(arguments) - len(returned))


@lru_cache(maxsize=1)
def require() -> None:
    """Tries the sandbox once per process. Raises PlanError, saying why, if it does not work on this machine."""
    try:
        worked = call(Program("def probe(x): return x + 1", "probe"), [[1]]) == [Returned(2)]
    except InfrastructureError as error:
        raise PlanError(f"generated code cannot be run safely on this machine: {error}") from error
    if not worked:
        raise PlanError("generated code cannot be run safely on this machine: a trial program gave no result")


def _refuse_platform() -> None:
    if not sys.platform.startswith("linux") or platform.machine() not in _MACHINES:
        raise PlanError(
            f"generated code is run only under a filter of system calls, on Linux with {' or '.join(_MACHINES)}; "
            f"this is {sys.platform} on {platform.machine()}"
        )


def _run(
    program: Program, arguments: Sequence[Sequence[Any]], limits: Limits, layers: Sequence[str]
) -> tuple[list[str], list[bytes], str]:
    """Returns (layers that are on, lines of results, how the process ended)."""
    job = {
        "program": program.source,
        "function": program.function,
        "modules": dict(program.modules),
        "calls": [list(values) for values in arguments],
        "limits": {name: value for name, value in asdict(limits).items() if name in ("cpu_s", "memory_bytes")},
        "layers": list(layers),
    }
    with tempfile.TemporaryDirectory(prefix="kveval-sandbox-") as directory, tempfile.TemporaryFile() as given:
        given.write(json.dumps(job).encode("utf-8", "backslashreplace"))
        given.seek(0)
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(_JAIL)],
                cwd=directory,
                env={},
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                umask=0o077,
            )
        except OSError as error:
            raise InfrastructureError(f"the sandbox could not be started: {error}") from error
        try:
            return _watch(process, limits)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdout:
                process.stdout.close()


def _watch(process: subprocess.Popen[bytes], limits: Limits) -> tuple[list[str], list[bytes], str]:
    if process.stdout is None:
        raise InfrastructureError("the sandbox has no channel for results")
    channel = process.stdout.fileno()
    received = b""
    while b"\n" not in received:
        more = _read(channel, time.monotonic() + _START_S)
        if not more:
            raise InfrastructureError("the sandbox's process ended or hung before it was confined")
        received += more
    first, received = received.split(b"\n", 1)
    greeting = json.loads(first)
    if "refused" in greeting:
        raise PlanError(f"generated code cannot be run safely on this machine: {greeting['refused']}")
    deadline = time.monotonic() + limits.wall_s
    while len(received) <= limits.result_bytes:
        more = _read(channel, deadline)
        if more is None:
            return greeting["engaged"], _lines(received), f"no result within {limits.wall_s:g} s"
        if not more:
            return greeting["engaged"], _lines(received), _ending(process)
        received += more
    return greeting["engaged"], [], f"more than {limits.result_bytes} bytes of results"


def _read(channel: int, deadline: float) -> bytes | None:
    """Returns up to 64 KiB, empty at the end; None after the deadline."""
    left = deadline - time.monotonic()
    if left <= 0 or not select.select([channel], [], [], left)[0]:
        return None
    return os.read(channel, _CHUNK)


def _lines(received: bytes) -> list[bytes]:
    return received.split(b"\n")[:-1]


def _ending(process: subprocess.Popen[bytes]) -> str:
    """Returns why the channel closed. A program may close it and keep running."""
    try:
        code = process.wait(_END_S)
    except subprocess.TimeoutExpired:
        return "the channel for results was closed"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code} before it returned"


def _returned(line: bytes) -> Returned:
    try:
        message = json.loads(line)
        return Returned(error=str(message["error"])) if "error" in message else Returned(message["value"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return Returned(error="a result that cannot be read")
