"""Hostile programs. Each is run under all layers, and again under the filter of system calls without the others."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kveval.errors import InfrastructureError, PlanError
from kveval.tasks.scoring import sandbox
from kveval.tasks.scoring.sandbox import LAYERS, Limits, Program, Returned, call, require

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="runs nothing elsewhere"),
    pytest.mark.timeout(60),
]

LIMITS = Limits(cpu_s=1, wall_s=8)
REFUSED = r"PermissionError|OSError|BlockingIOError"
# name: (source of f(x), what its one call must be: a value, or the beginning of an error)
HOSTILE: dict[str, tuple[str, object]] = {
    "endless loop": ("while True: pass", r"killed by SIG|no result within"),
    "loop that survives signals": (
        "import signal\nfor number in range(1, 32):\n    try: signal.signal(number, lambda *_: None)\n"
        "    except Exception: pass\nwhile True: pass",
        r"killed by SIG|no result within",
    ),
    "loop that swallows everything": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        r"killed by SIG|no result within",
    ),
    "sleep": ("import time\ntime.sleep(60)", r"no result within 2 s"),
    "memory": ("return len(bytearray(10**10))", r"MemoryError"),
    "memory little by little": ("a = []\nwhile True: a.append(bytearray(10**6))", r"MemoryError|killed by"),
    "memory of a power": ("return len(str(9 ** 9 ** 9))", r"killed by|no result within|MemoryError|ValueError"),
    "recursion": ("return f(x)", r"RecursionError"),
    "fork": ("import os\nreturn os.fork()", REFUSED),
    "fork bomb": (
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        r"killed by SIG|no result within",
    ),
    "fork of the raw kind": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nreturn [libc.fork(), libc.vfork()]",
        [-1, -1],
    ),
    "thread": ("import _thread\n_thread.start_new_thread(print, ())", r"RuntimeError"),
    "other program": ("import os\nos.execv('/bin/sh', ['sh', '-c', 'true'])", REFUSED),
    "shell": ("import os\nreturn os.system('echo x > OUTSIDE') != 0", True),
    "kill everything": ("import os\nos.kill(-1, 9)", REFUSED),
    "kill the parent": ("import os\nos.kill(os.getppid() or 1, 9)", REFUSED),
    "kill the group": ("import os\nos.killpg(0, 9)", REFUSED),
    "kill of the raw kind": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nreturn [libc.kill(-1, 9), libc.kill(CANARY, 9)]",
        [-1, -1],
    ),
    "read passwd": ("return open('/etc/passwd').read()", REFUSED),
    "read the home": ("import os\nreturn os.listdir(os.path.expanduser('~'))", REFUSED),
    "read other processes": ("return open('/proc/1/environ').read()", REFUSED),
    "read the standard input": ("import sys, os\nreturn [sys.stdin.read(), len(os.read(0, 100))]", ["", 0]),
    "environment": ("import os\nreturn [k for k in os.environ if k not in ('LC_CTYPE',)]", []),
    "write a file": ("open('OUTSIDE', 'w').write('x')", REFUSED),
    "write a file here": ("open('here', 'w').write('x')", REFUSED),
    "write a file the raw way": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nreturn [libc.open(b'OUTSIDE', 65, 511), libc.creat(b'OUTSIDE', 511)]",
        [-1, -1],
    ),
    "delete": ("import os\nos.remove('CANARYFILE')", REFUSED),
    "change rights": ("import os\nos.chmod('CANARYFILE', 0)", REFUSED),
    "socket": ("import socket\nsocket.create_connection(('127.0.0.1', PORT))", r"ModuleNotFoundError|" + REFUSED),
    "socket of the raw kind": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nreturn [libc.socket(2, 1, 0), libc.socket(1, 1, 0)]",
        [-1, -1],
    ),
    "become root": ("import os\nos.setuid(0)", REFUSED),
    "raise limits": ("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (100, 100))", r"\w+"),
    "trace the parent": ("import ctypes\nreturn ctypes.CDLL(None).ptrace(16, CANARY, 0, 0)", -1),
    "crash": ("import ctypes\nctypes.string_at(0)", r"killed by SIGSEGV"),
    "huge prints": ("while True: print('x' * 10**6)", r"killed by SIG|no result within"),
    "huge result": ("return 'x' * 10**6", r"more than 65536 bytes"),
    "huge error": ("raise ValueError('x' * 10**6)", r"ValueError: x{100,200}$"),
    "exit": ("raise SystemExit(0)", r"SystemExit"),
    "exit at once": ("import os\nos._exit(0)", r"ended with exit code 0 before it returned"),
    "exit of the raw kind": ("import ctypes\nctypes.CDLL(None)._exit(0)", r"ended with exit code 0"),
    "not a value": ("return object()", r"TypeError"),
    "not a number": ("return float('nan')", r"ValueError"),
    "equal to everything": (
        "class Same:\n    def __eq__(self, other): return True\n    __hash__ = None\nreturn [Same()]",
        r"TypeError",
    ),
    "very deep": ("a = []\nfor _ in range(10**5): a = [a]\nreturn a", r"RecursionError"),
    "error that raises": (
        "class Bad(Exception):\n    def __str__(self): raise SystemExit\nraise Bad",
        r"an exception that cannot be printed",
    ),
    "junk in the channel": ("import os\nos.write(3, b'junk\\n')\nos._exit(0)", r"a result that cannot be read"),
    "depth in the channel": (
        "import os\nos.write(3, b'[' * 60000 + b'\\n')\nos._exit(0)",
        r"a result that cannot be read",
    ),
    "flood in the channel": ("import os\nwhile True: os.write(3, b'x' * 4096)", r"more than 65536 bytes"),
    "more results than calls": (
        "import os\nos.write(3, b'{\"value\": 1}\\n' * 9)\nos._exit(0)",
        r"more results than calls",
    ),
    "closed channel": ("import os, time\nos.close(3)\ntime.sleep(60)", r"the channel for results was closed"),
    "patched harness": (
        "import json, sys\nmain = sys.modules['__main__']\nfor name in ('_send', 'answers', '_said'):\n"
        "    setattr(main, name, None)\njson.dumps = lambda *a, **k: '{\"value\": true}'\nreturn 1",
        r"\w+",
    ),
}  # fmt: skip


def program(body: str, **names: object) -> Program:
    for name, value in names.items():
        body = body.replace(name, str(value))
    return Program(f"def f(x):\n{textwrap.indent(body, '    ')}", "f")


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A folder anybody may write to, which also holds the sandbox's temporary folders."""
    tmp_path.chmod(0o777)
    (tmp_path / "canary").write_text("canary")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def canary():
    """A process of the same user that must live."""
    process = subprocess.Popen(["sleep", "300"])
    yield process
    assert process.poll() is None
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("layers", [LAYERS, ("system_calls",)], ids=["all layers", "filter only"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_give_wrong_answers_and_do_no_harm(name, layers, outside, canary, listener):
    body, wanted = HOSTILE[name]
    names = {
        "CANARYFILE": outside / "canary",
        "CANARY": canary.pid,
        "OUTSIDE": outside / "written",
        "PORT": listener.getsockname()[1],
    }
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    started = time.monotonic()
    # Only a program that does nothing waits for the end of its time.
    limits = replace(LIMITS, wall_s=2) if name == "sleep" else LIMITS
    (returned,) = call(program(body, **names), [[1]], limits, layers)
    assert time.monotonic() - started < 20
    if isinstance(wanted, str):
        assert returned.value is None
        assert re.match(wanted, returned.error)
    else:
        assert returned == Returned(wanted)
    assert {child.pid for child in psutil.Process().children(recursive=True)} == before
    assert canary.poll() is None
    assert [path.name for path in outside.iterdir()] == ["canary"]
    assert (outside / "canary").read_text() == "canary"


@pytest.mark.parametrize("source", ["import os\nos._exit(0)", "raise SystemExit", "while True: pass", "def f(x", "1/0"])
def test_programs_that_fail_before_they_are_called(source):
    returned = call(Program(source, "f"), [[1], [2]], LIMITS)
    assert len(returned) == 2
    assert all(result.error for result in returned)


def test_values_and_errors_come_back_call_by_call():
    body = "if x == 2: raise KeyError('two')\nreturn {'x': [x, None, True, 1.5, 'é']}"
    first, second, third = call(program(body), [[1], [2], [3]])
    assert first == Returned({"x": [1, None, True, 1.5, "é"]})
    assert second == Returned(error="KeyError: 'two'")
    assert third.value["x"][0] == 3


def test_results_before_a_crash_are_kept():
    returned = call(program("import os\nif x == 2: os._exit(1)\nreturn x"), [[1], [2], [3]])
    assert [result.value for result in returned] == [1, None, None]
    assert returned[2].error == "ended with exit code 1 before it returned"


def test_modules_can_be_imported_and_are_in_scope():
    modules = {"django.utils.harbor": "def g(x):\n    return x * 2"}
    source = "from django.utils.harbor import g as h\nimport django.utils.harbor\n" + (
        "def f(x): return [g(x), h(x), django.utils.harbor.g(x)]"
    )
    assert call(Program(source, "f", modules), [[4]]) == [Returned([8, 8, 8])]


def test_the_usual_standard_library_is_there():
    source = "import math, re, itertools, collections, functools, dataclasses, typing, decimal, random, statistics\n"
    assert call(Program(source + "def f(x): return math.comb(x, 2)", "f"), [[5]]) == [Returned(10)]


def test_a_program_sees_nothing_but_its_arguments():
    body = """
    import gc, sys
    frame, seen = sys._getframe(), []
    while frame:
        seen.append(repr(frame.f_locals))
        frame = frame.f_back
    return [str(seen), sorted(sys._getframe(2).f_locals.get("job", {}))]
    """
    (returned,) = call(program(textwrap.dedent(body)), [[1]], Limits(result_bytes=10**6))
    assert returned.value[1] in ([], ["calls", "function", "layers", "limits", "modules", "program"])


def test_root_becomes_nobody():
    (returned,) = call(program("import os\nreturn [os.getuid(), os.geteuid(), os.getgid()]"), [[1]])
    own = [os.getuid(), os.geteuid(), os.getgid()]
    assert returned.value == ([65534] * 3 if os.geteuid() == 0 else own)


def test_nothing_is_run_without_the_filter():
    with pytest.raises(PlanError, match="runs nothing without its filter"):
        call(program("return 1"), [[1]], layers=("network_namespace",))


@pytest.mark.parametrize(("system", "machine"), [("win32", "AMD64"), ("darwin", "arm64"), ("linux", "riscv64")])
def test_other_platforms_are_refused(monkeypatch, system, machine):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    with pytest.raises(PlanError, match=f"this is {system} on {machine}"):
        call(program("return 1"), [[1]])


@pytest.mark.parametrize(
    ("script", "error", "says"),
    [
        ("print('{\"refused\": \"OSError: seccomp\"}')", PlanError, "safely on this machine: OSError: seccomp"),
        ("print('{\"engaged\": [\"limits\"]}')", PlanError, "no filter of system calls here, only limits"),
        ("", InfrastructureError, "ended or hung before it was confined"),
        ("raise SystemExit(3)", InfrastructureError, "ended or hung before it was confined"),
    ],
)  # fmt: skip
def test_a_jail_that_does_not_hold_is_an_error_not_a_wrong_answer(monkeypatch, tmp_path, script, error, says):
    jail = tmp_path / "jail.py"
    jail.write_text(script)
    monkeypatch.setattr(sandbox, "_JAIL", jail)
    with pytest.raises(error, match=says):
        call(program("return 1"), [[1]])


def test_an_interpreter_that_cannot_be_started_is_an_error(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(InfrastructureError, match="could not be started"):
        call(program("return 1"), [[1]])


def test_the_trial_run_passes_here_and_says_why_it_does_not(monkeypatch, tmp_path):
    require.cache_clear()
    require()
    require.cache_clear()
    monkeypatch.setattr(sandbox, "_JAIL", Path(tmp_path / "missing.py"))
    with pytest.raises(PlanError, match="cannot be run safely on this machine: the sandbox's process ended"):
        require()
    require.cache_clear()
