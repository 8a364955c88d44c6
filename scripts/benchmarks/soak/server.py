"""A scripted server as a process: takes vLLM's flags, answers as a table says, and goes wrong as a script says.

It uses the standard library alone, so that it starts at once. The environment variable ``SOAK_SERVER`` names a JSON
file with what it needs (`Script`). Like vLLM, it has a core and a worker: processes that end with it, and that it ends
with.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import select
import signal
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GARBAGE = (
    "The committee agreed that the river would be considered in light of earlier proposals.",
    "In many ways the question of the harbour is a question of patience, and of the price of timber.",
    "As noted above, several of the instruments were tuned again before the evening.",
)


@dataclass
class Script:
    """What a server reads from its file.

    Attributes:
        answers: the file of right answers, by the SHA-256 of a prompt's token ids.
        kind: what goes wrong; see `Server._go_wrong`, `Server._page_of_metrics` and `prepare`. Empty: nothing.
        after: questions that are answered rightly before; `count`: how many go wrong, None for all;
            `every`: 2 for every second of them.
        with_: details of `kind`.
        launches: the launches that go wrong, from 1; empty for all. `launch_file`: counts them.
        facts: what the server says of itself in place of what its flags say.
    """

    answers: str
    launch_file: str
    kind: str = ""
    after: int = 0
    count: int | None = None
    every: int = 1
    with_: dict[str, Any] = field(default_factory=dict)
    launches: list[int] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


class Server:
    def __init__(self, flags: dict[str, str], script: Script, launch: int) -> None:
        self.name = flags.get("served-model-name", "served")
        self.root = "/models/soak"
        self.port = int(flags["port"])
        dtype = flags.get("kv-cache-dtype", "auto")
        self.facts = {
            "cache_dtype": "bfloat16" if dtype == "auto" else dtype,
            "capacity": 20_000 if dtype.startswith(("fp8", "int8")) else 10_000,
            "version": "0.32.0",
            "window": 8192,
            "root": self.root,
            "dies": "",
        } | script.facts
        self.script = script
        self.is_faulty = bool(script.kind) and (not script.launches or launch in script.launches)
        self.right: dict[str, str] = json.loads(Path(script.answers).read_text())
        self.asked = self.prompt_tokens = self.generated = 0
        self.seen: set[str] = set()
        self.started_at = time.time()
        self.core = 0
        self.is_alive = True

    # ---- what goes wrong, and when
    def is_wrong(self, *kinds: str) -> bool:
        """Whether the script's fault is one of `kinds` and is on by now."""
        end = float("inf") if self.script.count is None else self.script.after + self.script.count
        is_due = self.script.after < self.asked <= end and self.asked % self.script.every == 0
        return is_due and self.is_faulty and self.script.kind in kinds

    async def _go_wrong(self, out: asyncio.StreamWriter) -> bool:
        """Does what is wrong in place of an answer. Returns whether it did."""
        details = self.script.with_
        if self.is_wrong("status"):
            headers = "".join(f"{name}: {value}\r\n" for name, value in details.get("headers", {}).items())
            error = {"error": {"message": details.get("message", "scripted failure")}}
            send(out, error, status=details["status"], headers=headers)
        elif self.is_wrong("bytes"):
            chunk_stream(out)
            chunk(out, hashlib.sha256(str(self.asked).encode()).digest() * 20)
            out.write(b"0\r\n\r\n")
        elif self.is_wrong("html"):
            send(out, b"<html><body>Welcome to the proxy</body></html>", kind="text/html")
        elif self.is_wrong("stall"):
            await asyncio.sleep(details.get("seconds", 3600))
            out.close()
        elif self.is_wrong("abort"):
            out.get_extra_info("socket").setsockopt(1, 13, struct.pack("ii", 1, 0))
            out.transport.abort()
        elif self.is_wrong("exit"):
            os.kill(os.getpid(), details.get("signal", signal.SIGKILL))
            await asyncio.sleep(5)
        else:
            return False
        return True

    def _page_of_metrics(self) -> tuple[bytes, int]:
        facts = self.facts
        lines = [
            "# TYPE vllm:cache_config_info gauge",
            f'vllm:cache_config_info{{block_size="16",cache_dtype="{facts["cache_dtype"]}",enable_prefix_caching="True",'
            f'kv_cache_size_tokens="{facts["capacity"]}",kv_cache_dtype_skip_layers="[]"}} 1.0',
            "# TYPE process_start_time_seconds gauge",
            f"process_start_time_seconds {self.started_at}",
        ]
        prompt: float = self.prompt_tokens
        if self.is_wrong("metrics_nan"):
            prompt = float("nan")
        elif self.is_wrong("metrics_reset"):
            prompt = self.prompt_tokens % 97
        for name, value in (("prompt_tokens", prompt), ("generation_tokens", self.generated)):
            lines += [f"# TYPE vllm:{name}_total counter", f'vllm:{name}_total{{model_name="{self.name}"}} {value}']
        if self.is_wrong("metrics_lost"):
            return b"no such path", 404
        if self.is_wrong("metrics_html"):
            return b"<html><body>Sign in</body></html>", 200
        if self.is_wrong("metrics_error"):
            return b"Internal Server Error", 500
        return ("\n".join(lines) + "\n").encode(), 200

    # ---- HTTP
    async def connected(self, read: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ValueError, asyncio.LimitOverrunError):
            while line := await read.readline():
                path = line.decode().split()[1]
                length = 0
                while header := (await read.readline()).decode().strip():
                    name, _, value = header.partition(":")
                    length = int(value) if name.lower() == "content-length" else length
                body = await read.readexactly(length)
                await self._answer(path, body, out)
                if out.is_closing():
                    return
                await out.drain()
        out.close()

    async def _answer(self, path: str, body: bytes, out: asyncio.StreamWriter) -> None:
        if path == "/health":
            send(out, b"", status=200 if self.is_alive else 503)
        elif path == "/version":
            send(out, {"version": self.facts["version"]})
        elif path == "/metrics":
            if self.is_wrong("metrics_dropped"):
                out.transport.abort()
                return
            page, status = self._page_of_metrics()
            send(out, page, status=status, kind="text/plain")
        elif path == "/v1/models":
            entry = {"id": self.name, "root": self.facts["root"], "max_model_len": self.facts["window"]}
            send(out, {"object": "list", "data": [{"object": "model", **entry}]})
        elif path == "/v1/completions":
            await self._complete(json.loads(body), out)
        else:
            send(out, {"detail": "Not Found"}, status=404)

    async def _complete(self, question: dict[str, Any], out: asyncio.StreamWriter) -> None:
        if question.get("cache_salt") == "":
            send(out, {"error": {"message": "cache_salt must be a non-empty string"}}, status=400)
            return
        prompt = question["prompt"]
        ids = [ord(letter) for letter in prompt] if isinstance(prompt, str) else prompt
        if "prompt_logprobs" in question:
            rows = [None, *({str(token): {"logprob": -3.0, "rank": 1}} for token in ids[1:])]
            choice = {"text": " x", "finish_reason": "length", "prompt_logprobs": rows}
            send(out, {"model": self.name, "choices": [choice], "usage": usage(ids, 1, 0)})
            return
        key = hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()
        is_question = key in self.right and question.get("cache_salt") != "kveval-smoke"
        if is_question:
            self.asked += 1
            self._change()
            if await self._go_wrong(out):
                return
        if not self.is_alive:
            send(out, {"error": {"message": "EngineCore encountered an issue"}}, status=500)
            return
        text = self.right.get(key, "a quiet harbour town in the morning")
        if is_question and self.is_wrong("garbage"):
            text = GARBAGE[self.asked % len(GARBAGE)]
        if is_question and self.is_wrong("empty"):
            text = ""
        self.prompt_tokens += len(ids)
        salted = f"{question.get('cache_salt')} {key}"
        cached = (len(ids) - 1) // 16 * 16 if salted in self.seen else 0
        self.seen.add(salted)
        if question.get("stream"):
            await self._stream(text, ids, cached, out, is_question=is_question)
            return
        whole: dict[str, Any] = {"text": text, "finish_reason": "stop", "logprobs": None}
        if question.get("return_token_ids"):
            whole["prompt_token_ids"] = ids
        send(out, {"model": self.name, "choices": [whole], "usage": usage(ids, 3, cached)})

    async def _stream(
        self, text: str, ids: list[int], cached: int, out: asyncio.StreamWriter, *, is_question: bool
    ) -> None:
        model = "another" if is_question and self.is_wrong("renamed") else self.name
        pieces = text.split(" ")
        self.generated += len(pieces)
        chunk_stream(out)
        for place, piece in enumerate(pieces):
            if is_question and place == len(pieces) // 2:
                if self.is_wrong("cut"):
                    await out.drain()
                    out.transport.abort()
                    return
                if self.is_wrong("exit_in_answer"):
                    await out.drain()
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.is_wrong("unended"):
                    chunk(out, b"data: [DONE]\n\n" if self.script.with_.get("done") else b"")
                    out.write(b"0\r\n\r\n")
                    return
                if self.is_wrong("slow"):
                    await out.drain()
                    await asyncio.sleep(self.script.with_.get("seconds", 3600))
            is_last = place == len(pieces) - 1
            choice = {"index": 0, "text": piece if is_last else piece + " ", "logprobs": None}
            choice["finish_reason"] = "stop" if is_last else None
            chunk(out, b"data: " + json.dumps({"model": model, "choices": [choice]}).encode() + b"\n\n")
        end = {"model": model, "choices": [], "usage": usage(ids, len(pieces), cached)}
        chunk(out, b"data: " + json.dumps(end).encode() + b"\n\ndata: [DONE]\n\n")
        out.write(b"0\r\n\r\n")

    def _change(self) -> None:
        """Becomes another server: restarted behind the same address with other flags."""
        if self.is_wrong("changed"):
            self.facts |= self.script.with_["facts"]
            if self.script.with_.get("restarts"):
                self.started_at, self.prompt_tokens, self.generated = time.time(), 0, 0
        if self.is_wrong("kill_core") and self.is_alive and self.core:
            self.is_alive = False
            os.kill(self.core, signal.SIGKILL)

    # ---- processes
    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        listening = await asyncio.start_server(self.connected, "127.0.0.1", self.port, limit=1 << 28)
        ended = loop.create_future()

        def end() -> None:
            if not ended.done():
                ended.set_result(0)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end)
        watching = asyncio.create_task(self._watch_core(ended))
        code = await ended
        watching.cancel()
        listening.close()
        os._exit(code)

    async def _watch_core(self, ended: asyncio.Future[int]) -> None:
        while True:
            await asyncio.sleep(0.05)
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(self.core, os.WNOHANG)[0]:  # noqa: ASYNC222 - returns at once
                    break
        self.is_alive = False
        print("RuntimeError: EngineCore died", flush=True)
        # As vLLM: unhealthy at first, and gone a moment later.
        await asyncio.sleep(0.3)
        if not ended.done():
            ended.set_result(1)


def start_core(*, is_stubborn: bool) -> int:
    """Starts a core, which starts a worker. Each ends with the other, and with this process.

    A stubborn worker ends for none of them, and not for SIGTERM.
    """
    held, _mine = os.pipe()
    os.set_inheritable(_mine, False)
    core = os.fork()
    if core:
        os.close(held)
        return core
    os.close(_mine)
    worker = os.fork()
    if not worker:
        if is_stubborn:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(120)
        os.read(held, 1)
        os._exit(0)
    while not select.select([held], [], [], 0.05)[0]:
        if os.waitpid(worker, os.WNOHANG)[0]:
            os._exit(1)
    os._exit(0)


def usage(ids: list[int], output_tokens: int, cached: int) -> dict[str, Any]:
    return {
        "prompt_tokens": len(ids),
        "completion_tokens": output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def send(
    out: asyncio.StreamWriter, value: Any, *, status: int = 200, kind: str = "application/json", headers: str = ""
) -> None:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    out.write(head.encode() + body)


def chunk_stream(out: asyncio.StreamWriter) -> None:
    out.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")


def chunk(out: asyncio.StreamWriter, data: bytes) -> None:
    if data:
        out.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def launches_of(path: Path) -> int:
    """Counts this launch, and returns how many there were."""
    with path.open("a+") as file:
        file.write("x")
        return file.tell()


def main(arguments: list[str]) -> None:
    words = iter(arguments)
    flags: dict[str, str] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name = word[2:]
            flags[name] = ""
        else:
            flags[name] = word
    script = Script(**json.loads(Path(os.environ["SOAK_SERVER"]).read_text()))
    launch = launches_of(Path(script.launch_file))
    server = Server(flags, script, launch)
    if server.is_faulty and script.kind == "dies_at_start":
        print("ValueError: scripted end at the start", flush=True)
        sys.exit(1)
    if server.is_faulty and script.kind == "never_ready":
        time.sleep(600)
    print("Initializing a V1 LLM engine (v0.32.0) with config: dtype=torch.bfloat16, enforce_eager=True", flush=True)
    print("Using FLASH_ATTN attention backend", flush=True)
    # Before the event loop: a fork would share it.
    server.core = start_core(is_stubborn=server.is_faulty and bool(script.with_.get("stubborn")))
    asyncio.run(server.serve())


if __name__ == "__main__":
    main(sys.argv[1:])
