"""The servers, the configuration and the run directory of one case."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from benchmarks.soak import commands
from benchmarks.soak.case import QUESTIONS, Act, Case, Variant

_SERVER = Path(__file__).parent / "server.py"
VARIANTS: tuple[Variant, ...] = ("bf16", "fp8")
CONFIG: dict[str, Any] = {
    "model": "smollm2",
    "baseline": "bf16",
    "context_lengths": [320, 512],
    "tasks": ["niah_single"],
    "samples": QUESTIONS // 2,
    # Contexts enough to tell a collapse from chance.
    "questions_per_haystack": 2,
    "haystack": "generated",
    "aa_share": 0,
    # A fault is drawn by the number of its question, so every case asks all of them.
    "stop": "never",
    "cold_check": 4,
    "requests": {"logprobs": 0, "timeout_s": 10, "max_in_flight": 8, "forced_decode": False},
    # Equal answers are bounded by their contexts, and a healthy run of so few passes at 15 points.
    "judge": {"margin": 0.15},
}


# vLLM itself: what two cores answer in a minute.
REAL_CONFIG: dict[str, Any] = {
    "samples": 20,
    "engine": {"kv_cache_gib": 1, "args": {"max-num-seqs": 8}},
    "requests": {"max_in_flight": 4, "timeout_s": 120},
}


class Stage:
    """One case's folder, with everything in place. Leaves no process and no disk behind.

    Args:
        answers: of scripted servers, by prompt. None: vLLM itself answers.
        clock: the library that makes a clock jump. None without a C compiler.

    Attributes:
        run: the run directory.
        questions: that a variant is asked.
        preloaded: what a harness needs whose clock jumps.
        happened: whether the case's act was done.
    """

    def __init__(self, folder: Path, case: Case, answers: Path | None, clock: Path | None) -> None:
        self.folder = folder
        self.questions = len(CONFIG["context_lengths"]) * (REAL_CONFIG if answers is None else CONFIG)["samples"]
        self.run = folder / "disk" / "run"
        self.preloaded: dict[str, str] = {}
        self.happened = case.act is None
        self._case = case
        self._answers = answers
        self._ports = {name: _free_port() for name in VARIANTS}
        self._servers: dict[Variant, subprocess.Popen[bytes]] = {}
        self._sizes: dict[Variant, tuple[int, int]] = {}
        self._clock = folder / "clock"
        if case.act and case.act.what == "jump_clock":
            if clock is None:
                raise RuntimeError("a clock that jumps needs a C compiler (cc)")
            self._clock.write_bytes(struct.pack("d", 0.0))
            self.preloaded = {"LD_PRELOAD": str(clock), "SOAK_CLOCK": str(self._clock)}

    def __enter__(self) -> Stage:
        self.run.parent.mkdir(parents=True)
        if self._case.disk_kib is not None:
            size = f"size={self._case.disk_kib}k"
            subprocess.run(["mount", "-t", "tmpfs", "-o", size, "soak", self.run.parent], check=True)
        wrapper = self.folder / "engine"
        # Without a `python` beside it, kveval does not ask the command which vLLM it has.
        wrapper.write_text(f"#!/bin/sh\nexec '{sys.executable}' -S '{_SERVER}' \"$@\"\n")
        wrapper.chmod(0o755)
        self._write_config(wrapper)
        self._prepare(self._case.servers)
        return self

    def _prepare(self, faults: Mapping[Variant, Mapping[str, Any]]) -> None:
        for name in VARIANTS if self._answers is not None else ():
            self._script(name, faults.get(name, {}))
            if not self._case.launched:
                self._start(name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._servers):
            self._stop(name)
        if self._case.disk_kib is not None:
            subprocess.run(["umount", "--lazy", self.run.parent], check=True)

    def mend(self) -> None:
        """Makes the servers well again, and the disk large."""
        for name in list(self._servers):
            self._stop(name)
        self._prepare({})
        if self._case.disk_kib is not None:
            subprocess.run(["mount", "-o", "remount,size=64m", self.run.parent], check=True)

    def sweep(self, *more: str) -> commands.Ended:
        return commands.run(
            ["sweep", "soak.yaml", "--out", str(self.run), *more],
            self.folder,
            within_s=self._case.within_s,
            while_running=self._act_when_due,
            preloaded=self.preloaded,
        )

    def gate(self) -> commands.Ended:
        return commands.run(["gate", str(self.run)], self.folder, within_s=self._case.within_s)

    # ---- what is written
    def answered(self, variant: Variant) -> int:
        path = self.run / "records" / f"{variant}.jsonl"
        size = path.stat().st_size if path.exists() else 0
        known = self._sizes.get(variant, (-1, 0))
        if size != known[0]:
            self._sizes[variant] = known = (size, path.read_bytes().count(b"\n") if size else 0)
        return known[1]

    def lines(self) -> set[bytes]:
        """Returns every whole line of an answer, wherever it is kept."""
        found: set[bytes] = set()
        for pattern in ("records/*.jsonl", "cold/*.jsonl", "sentinels/*.jsonl", "set_aside/*/*.jsonl"):
            for path in self.run.glob(pattern):
                found.update(line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n"))
        return found

    def damage(self) -> set[bytes]:
        """Breaks a line amid the answers of each variant as the case says. Returns the lines that are gone for good."""
        gone: set[bytes] = set()
        for name in VARIANTS:
            path = self.run / "records" / f"{name}.jsonl"
            lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
            if len(lines) < 3:
                continue
            at = len(lines) // 2
            gone.update(lines[at : at + 2])
            broken = {
                "zeros": b"\0" * (len(lines[at]) - 1) + b"\n" + lines[at + 1],
                "torn": lines[at][: len(lines[at]) // 2] + b"\n" + lines[at + 1],
                "glued": lines[at].rstrip(b"\n") + lines[at + 1],
            }
            path.write_bytes(b"".join([*lines[:at], broken[str(self._case.damage)], *lines[at + 2 :]]))
        return gone

    # ---- what goes wrong from outside
    def _act_when_due(self, pid: int) -> None:
        act = self._case.act
        if act is None or self.happened or not self._is_due(act):
            return
        self.happened = True
        if act.what == "kill_harness":
            os.kill(pid, act.with_)
        elif act.what == "jump_clock":
            # In place: the harness has the file mapped, and reading it while it is empty would kill the harness.
            with self._clock.open("rb+") as file:
                file.write(struct.pack("d", float(act.with_)))
        elif act.what == "limit_files":
            path = self.run / "records" / f"{act.variant}.jsonl"
            commands.limit_files(pid, path.stat().st_size + act.with_)
        elif act.what == "restart_server":
            self._stop(act.variant)
            self._script(act.variant, {"facts": act.with_})
            self._start(act.variant)
        elif self._case.launched:
            self._kill_launched(pid, act)
        else:
            self._servers[act.variant].send_signal(act.with_)

    def _is_due(self, act: Act) -> bool:
        if act.after:
            return self.answered(act.variant) >= act.after
        return (self.run / "manifest.json").exists() and (
            not self._case.launched or (self.run / "engine" / f"{act.variant}.log").exists()
        )

    def _kill_launched(self, pid: int, act: Act) -> None:
        ids = {process.pid for process in commands.marked(f"{pid}-")}
        chain = [process for process in commands.marked(f"{pid}-") if process.ppid() not in ids]
        while chain and (children := chain[-1].children()):
            chain.append(children[0])
        depth = ("kill_server", "kill_core", "kill_worker").index(act.what)
        # A vLLM with one worker runs it inside its core.
        with contextlib.suppress(psutil.Error, IndexError):
            chain[min(depth, len(chain) - 1)].kill()

    # ---- servers
    def _script(self, name: Variant, fault: Mapping[str, Any]) -> None:
        script = {"answers": str(self._answers), "launch_file": str(self.folder / f"{name}.launches"), **fault}
        self._script_path(name).write_text(json.dumps(script))

    def _script_path(self, name: Variant) -> Path:
        return self.folder / f"{name}.json"

    def _start(self, name: Variant) -> None:
        dtype = "bfloat16" if name == "bf16" else name
        command = [sys.executable, "-S", str(_SERVER), "model", "--port", str(self._ports[name]),
                   "--served-model-name", "served", "--kv-cache-dtype", dtype]  # fmt: skip
        environment = {**os.environ, "SOAK_SERVER": str(self._script_path(name))}
        with (self.folder / f"{name}.log").open("ab") as log:
            self._servers[name] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._ports[name]), 0.2):
                return
            time.sleep(0.02)
        raise RuntimeError(f"the scripted server {name} does not start; see {self.folder}")

    def _stop(self, name: Variant) -> None:
        server = self._servers.pop(name)
        server.send_signal(signal.SIGKILL)
        server.wait()

    def _write_config(self, wrapper: Path) -> None:
        config = {**CONFIG, **self._case.config}
        config["requests"] = CONFIG["requests"] | self._case.config.get("requests", {})
        variants: list[dict[str, Any]]
        if self._answers is None:
            config |= REAL_CONFIG
            variants = [{"name": name} for name in VARIANTS]
        elif self._case.launched:
            config["engine"] = {"command": [str(wrapper)], "startup_timeout_s": 30} | config.get("engine", {})
            variants = [{"name": name, "env": {"SOAK_SERVER": str(self._script_path(name))}} for name in VARIANTS]
        else:
            variants = [{"name": name, "endpoint": self._endpoint(name)} for name in VARIANTS]
        variants[1]["kv_cache_dtype"] = "fp8"
        # JSON is YAML.
        (self.folder / "soak.yaml").write_text(json.dumps({**config, "variants": variants}))

    def _endpoint(self, name: Variant) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._ports[name]}"
        return {"url": url, "model": "served", "declared": {"attention_backend": "FLASH_ATTN"}}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
