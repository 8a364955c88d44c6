"""`kveval` on servers that already run, where no vLLM is installed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.commands import Kveval
from support.scripted import Reply
from support.scripted_endpoint import BARE, KEY, ScriptedEndpoint, answering, tokenizer_of

from kveval.api import source, sweep
from kveval.engines.base import Installation
from kveval.engines.process import free_port
from kveval.errors import EngineNotInstalledError
from kveval.measure.plan.plan import Plan, make_plan
from kveval.tasks.assembly.prompt import PromptFormat


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ScriptedEndpoint]]:
    """Two bare servers, in a thread of their own; they know the answers to whatever plan the command line makes."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    both = {name: ScriptedEndpoint(lambda *_: Reply("hello there"), lacks=BARE) for name in ("f16", "q8")}

    def remember(*arguments: Any) -> Plan:
        plan = make_plan(*arguments)
        for server in both.values():
            server.handler, server.tokenize = answering(plan), tokenizer_of(plan)
        return plan

    monkeypatch.setattr(sweep, "make_plan", remember)
    for server in both.values():
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    yield both
    for server in both.values():
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.fixture
def attached(
    kveval: Kveval, stand_in: None, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Kveval:
    """`kveval COMMAND config.yaml ...` with these variants, where no vLLM is installed."""

    def no_vllm(_: object) -> Installation:
        raise EngineNotInstalledError("no engine")

    monkeypatch.setattr(source, "find_installation", no_vllm)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def call(variants: list[dict[str, Any]], command: str, *arguments: str) -> tuple[int, str, str]:
        given = {
            "model": str(checkpoint), "variants": variants, "baseline": "f16", "context_lengths": [512],
            "tasks": ["niah_single"], "samples": 6, "questions_per_haystack": 3, "haystack": "generated",
        }  # fmt: skip
        Path("config.yaml").write_text(yaml.safe_dump(given))
        return kveval(command, "config.yaml", *arguments)

    return call


def variants_of(servers: dict[str, ScriptedEndpoint], **keys: Any) -> list[dict[str, Any]]:
    urls = {name: {"url": server.base_url, "model": "served", **keys} for name, server in servers.items()}
    return [{"name": "f16", "endpoint": urls["f16"]}, {"name": "q8", "kv_cache_dtype": "q8_0", "endpoint": urls["q8"]}]


def test_a_sweep_shows_what_is_declared(
    attached: Kveval, servers: dict[str, ScriptedEndpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    variants = variants_of(servers, api_key_env="SCRIPTED_KEY", declared={"kv_capacity_tokens": 4096})

    code, out, err = attached(variants, "sweep", "--out", "run")

    assert code == 0, out + err
    assert "native q8_0 (declared)" in out + err
    assert "KV capacity x1.00 (declared)" in out + err
    page = Path("run/report.html").read_text()
    assert '<span class="tag">native q8_0 (declared)</span>' in page
    assert "declared, not established: effective cache dtype, kv capacity tokens" in page
    assert "<bdi>q8_0</bdi> <span" in page
    assert "the same running server is asked again, not a second launch" in page
    assert KEY not in out + err + page
    facts = json.loads(Path("run/manifest.json").read_text())["variants"]["q8"]["facts"]
    assert facts["declared"] == ["effective_cache_dtype", "kv_capacity_tokens"]


def test_a_dry_run_asks_no_server(attached: Kveval, servers: dict[str, ScriptedEndpoint]) -> None:
    code, out, err = attached(variants_of(servers), "sweep", "--dry-run")
    assert code == 0, err
    assert "servers that already run" in out
    assert "(declared)" in out
    assert servers["f16"].authorizations == []


def test_what_cannot_be_reached_and_what_is_not_set(attached: Kveval) -> None:
    nowhere = {"url": f"http://127.0.0.1:{free_port()}", "model": "served"}
    code, _, err = attached([{"name": "f16", "endpoint": nowhere}], "sweep", "--out", "run")
    assert code == 3
    assert "nothing answers there" in err
    assert "Traceback" not in err

    code, _, err = attached(
        [{"name": "f16", "endpoint": {**nowhere, "api_key_env": "NOT_SET"}}], "sweep", "--out", "new"
    )
    assert code == 2
    assert "variants.f16.endpoint.api_key_env: NOT_SET is not set" in err
    assert not Path("new").exists()


def test_a_password_in_an_address_is_refused_unseen(attached: Kveval) -> None:
    endpoint = {"url": "http://me:hunter2@host", "model": "served"}
    code, out, err = attached([{"name": "f16", "endpoint": endpoint}], "sweep", "--out", "run")
    assert code == 2
    assert "has credentials in it" in err
    assert "hunter2" not in out + err


def test_load_of_servers_that_run(
    attached: Kveval, servers: dict[str, ScriptedEndpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kveval.load.stage.ordinary_tokens", lambda *_: tuple(range(100, 400)))
    for server in servers.values():
        server.handler = lambda *_: Reply("a quiet harbour town", finish_reason="length")
        server.tokenize = lambda text: [int(token) for token in PromptFormat.stand_in().encode(text)]
    flags = ["--concurrency", "1", "--lengths", "64", "--output-tokens", "3", "--requests", "2", "--out", "run"]
    code, out, _ = attached(variants_of(servers), "load", *flags, "--dry-run", "--json")
    assert (code, json.loads(out)["engine_launches"]) == (0, 0)
    assert servers["f16"].authorizations == []
    code, out, err = attached(variants_of(servers), "load", *flags, "--json")
    document = json.loads(out)
    assert code == 0, err
    assert {(row["variant"], row["completed"]) for row in document["rows"] if row["kind"] == "closed"} == {
        ("f16", 2),
        ("q8", 2),
    }
