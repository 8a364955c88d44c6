"""Runs a program that cannot be trusted. `kveval.tasks.scoring.sandbox` starts this file as a script.

It reads a job from standard input, confines itself, and only then runs the program. It uses the standard library alone,
and imports everything that programs may need first, because it cannot open a file afterwards.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import platform
import resource
import signal
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_LIBRARY = (
    "abc", "array", "ast", "base64", "binascii", "bisect", "calendar", "cmath", "collections", "contextlib", "copy",
    "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools", "graphlib", "hashlib",
    "heapq", "inspect", "io", "itertools", "json", "logging", "math", "numbers", "operator", "pprint", "queue",
    "random", "re", "statistics", "string", "struct", "textwrap", "time", "timeit", "traceback", "types", "typing",
    "unicodedata", "warnings", "weakref", "zlib",
)  # fmt: skip

_NOBODY = 65534
_LONGEST_ERROR = 200

# From <linux/prctl.h>, <linux/seccomp.h>, <linux/filter.h>, <linux/audit.h> and <linux/sched.h>.
_SET_DEATH_SIGNAL, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES = 1, 22, 38
_FILTER_MODE = 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _KILL_PROCESS, _NOT_PERMITTED = 0x7FFF0000, 0x80000000, 0x00050000 | 1
_NEW_USER, _NEW_NETWORK, _NEW_IPC = 0x10000000, 0x40000000, 0x08000000

# The system calls that stay: open descriptors, memory, own signals, clocks, exit. No open, socket, kill, fork, clone,
# exec, ptrace or limits. Numbers of read, write, close, fstat, lseek, mmap, mprotect, munmap, brk,
# rt_sigaction, rt_sigprocmask, rt_sigreturn, madvise, mremap, sched_yield, nanosleep, getpid, exit, getuid, getgid,
# geteuid, getegid, sigaltstack, gettid, futex, restart_syscall, clock_gettime, clock_getres, clock_nanosleep,
# exit_group, getrandom, gettimeofday, rseq; the last of x86_64 is time.
_ARCHITECTURES = {
    "x86_64": (
        0xC000003E,
        (0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 28, 25, 24, 35, 39, 60, 102, 104, 107, 108, 131, 186, 202, 219, 228,
         229, 230, 231, 318, 96, 334, 201),
    ),
    "aarch64": (
        0xC00000B7,
        (63, 64, 57, 80, 62, 222, 226, 215, 214, 134, 135, 139, 233, 216, 124, 101, 172, 93, 174, 176, 175, 177, 132,
         178, 98, 128, 113, 114, 115, 94, 278, 169, 293),
    ),
}  # fmt: skip


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("then", ctypes.c_ubyte), ("other", ctypes.c_ubyte), ("k", ctypes.c_uint))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction)))


def confine(limits: dict[str, int], layers: list[str]) -> list[str]:
    """Gives up every right that a process can give up, for good. Returns the layers that are on.

    Args:
        limits: ``cpu_s`` and ``memory_bytes``.
        layers: the layers to try, besides the limits; see `kveval.tasks.scoring.sandbox`.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    engaged = ["limits"]
    for name, amount in (
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 16),
    ):
        resource.setrlimit(name, (amount, amount))
    if "network_namespace" in layers:
        user = 0 if os.geteuid() == 0 else _NEW_USER
        if libc.unshare(user | _NEW_NETWORK | _NEW_IPC) == 0:
            engaged.append("network_namespace")
    if "unprivileged_user" in layers and os.geteuid() == 0:
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
            engaged.append("unprivileged_user")
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privileges")
    engaged.append("no_new_privileges")
    if "system_calls" in layers:
        _filter_system_calls(libc)
        engaged.append("system_calls")
    return engaged


def _filter_system_calls(libc: ctypes.CDLL) -> None:
    audit_number, allowed = _ARCHITECTURES[platform.machine()]
    instructions = [(_LOAD, 0, 0, 4), (_JUMP_IF_EQUAL, 1, 0, audit_number), (_RETURN, 0, 0, _KILL_PROCESS)]
    instructions.append((_LOAD, 0, 0, 0))
    for number in allowed:
        instructions += [(_JUMP_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    instructions.append((_RETURN, 0, 0, _NOT_PERMITTED))
    array = (_Instruction * len(instructions))(*(_Instruction(*fields) for fields in instructions))
    program = _Program(len(instructions), array)
    if libc.prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def answers(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields what each call returns or raises: ``{"value": ...}`` or ``{"error": "TypeError: ..."}``."""
    namespace: dict[str, Any] = {"__name__": "answer"}
    try:
        for name, source in job["modules"].items():
            namespace.update(_install(name, source))
        exec(compile(job["program"], "answer.py", "exec"), namespace)  # noqa: S102 (the purpose of this process)
    except BaseException as error:
        for _ in job["calls"]:
            yield {"error": _said(error)}
        return
    for call in job["calls"]:
        try:
            yield json.loads(json.dumps({"value": namespace[job["function"]](*call)}, allow_nan=False))
        except BaseException as error:
            yield {"error": _said(error)}


def _install(name: str, source: str) -> dict[str, Any]:
    """Makes a module importable under its dotted name, and returns its public names."""
    parts = name.split(".")
    for size in range(1, len(parts) + 1):
        module = sys.modules.setdefault(".".join(parts[:size]), ModuleType(".".join(parts[:size])))
        module.__path__ = []
        if size > 1:
            setattr(sys.modules[".".join(parts[: size - 1])], parts[size - 1], module)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)  # noqa: S102
    return {key: value for key, value in vars(module).items() if not key.startswith("__")}


def _said(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
    except BaseException:  # printing an exception of the program may raise too
        return "an exception that cannot be printed"


def _send(descriptor: int, message: object) -> None:
    line = json.dumps(message).encode() + b"\n"
    while line:
        line = line[os.write(descriptor, line) :]


def main() -> None:
    """Reads one job, confines this process, sends the layers that are on, and then one line for each call."""
    job = json.loads(sys.stdin.buffer.read())
    results = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    for name in _LIBRARY:
        importlib.import_module(name)
    try:
        engaged = confine(job["limits"], job["layers"])
    except (OSError, KeyError, ValueError) as error:
        _send(results, {"refused": f"{type(error).__name__}: {error}"})
        os._exit(1)
    _send(results, {"engaged": engaged})
    for answer in answers(job):
        _send(results, answer)
    os._exit(0)


if __name__ == "__main__":
    main()
