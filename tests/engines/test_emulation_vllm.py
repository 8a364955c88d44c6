"""Emulation inside a real vLLM server: it changes what it should, nothing else, and says so in the log."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from kveval.engines.emulation import EmulationFacts, EmulationSpec, parse_log

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(sys.platform != "linux", reason="vLLM runs on Linux"),
]

PROMPT = (
    "The harbour was quiet and the boats were tied to the pier. "
    "The secret number of the lighthouse is 7412. "
    "Gulls circled over the market while the fishermen mended their nets. "
    "The tide came in slowly, and by noon the children had gone home. "
    "Question: what is the secret number of the lighthouse? "
    "Answer: the secret number of the lighthouse is"
)


@dataclass(frozen=True)
class Answer:
    text: str
    logprobs: list[float]
    facts: EmulationFacts


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def server(model: Path, log: Path, environment: dict[str, str]) -> Iterator[str]:
    """The base URL of a vLLM server of `model`; its whole process group is gone afterwards."""
    port = free_port()
    settings = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    options = ["--port", str(port), "--enforce-eager", "--max-model-len", "1024", "--generation-config", "vllm"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command + options,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **settings, **environment},
            start_new_session=True,
        )
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        for stop in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, stop)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)


def wait_until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(url, timeout=5).is_success:
                return
        time.sleep(0.5)
    pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')[-3000:]}")


def answer(model: Path, directory: Path, environment: dict[str, str]) -> Answer:
    log = directory / "server.log"
    body = {"model": str(model), "prompt": PROMPT, "max_tokens": 6, "temperature": 0, "logprobs": 1}
    with server(model, log, environment) as base_url:
        response = httpx.post(f"{base_url}/v1/completions", json=body, timeout=120).raise_for_status()
    choice = response.json()["choices"][0]
    return Answer(choice["text"], choice["logprobs"]["token_logprobs"], parse_log(log.read_text()))


@pytest.fixture(scope="module")
def baseline(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """The plugin is installed and its variable is absent."""
    return answer(smollm2, tmp_path_factory.mktemp("baseline"), {})


def test_without_the_variable_nothing_changes(smollm2: Path, tmp_path: Path, baseline: Answer) -> None:
    without_plugin = answer(smollm2, tmp_path, {"VLLM_PLUGINS": "none"})

    assert "7412" in baseline.text
    assert without_plugin == baseline
    assert baseline.facts == EmulationFacts()


def test_int8_per_token_head_moves_logprobs_and_keeps_the_answer(
    smollm2: Path, tmp_path: Path, baseline: Answer
) -> None:
    spec = EmulationSpec(format="int8", granularity="per_token_head")
    emulated = answer(smollm2, tmp_path, spec.to_env())

    assert emulated.text == baseline.text
    assert emulated.logprobs != baseline.logprobs
    assert emulated.logprobs == pytest.approx(baseline.logprobs, abs=0.5)
    facts = emulated.facts
    assert facts.requested == spec
    assert facts.live
    assert facts.tokens is not None
    assert facts.tokens > 40
    assert facts.relative_error_k == pytest.approx(0.01, abs=0.01)
    assert (facts.rounded_layers, facts.kept_layers) == (30, 0)


def test_int2_destroys_the_answer(smollm2: Path, tmp_path: Path, baseline: Answer) -> None:
    spec = EmulationSpec(format="int2", granularity="per_token_head")
    emulated = answer(smollm2, tmp_path, spec.to_env())

    assert "7412" not in emulated.text
    assert emulated.facts.live
    assert emulated.facts.relative_error_v is not None
    assert emulated.facts.relative_error_v > 0.2
