"""Attaching to a server that somebody else runs: it answers, or the error says what to do."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.scripted import Reply
from support.scripted_endpoint import ScriptedEndpoint
from support.sweeps import Planner, endpoint

from kveval.config.engine import RequestsConfig
from kveval.engines.base import NOTHING_TO_LAUNCH
from kveval.engines.client.client import Client
from kveval.engines.client.request import EngineRequest
from kveval.engines.openai.engine import AttachedEngine
from kveval.engines.process import free_port
from kveval.engines.registry import open_engine
from kveval.engines.session import open_session
from kveval.errors import ConfigError, EngineError, FactsError, KvevalError
from kveval.measure.plan.plan import Plan


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.engines.openai.requests._DEFAULT_RETRY_SECONDS", 0.01)


@pytest.fixture
def installation() -> Any:
    """No vLLM anywhere."""
    return NOTHING_TO_LAUNCH


@pytest.fixture
async def server() -> AsyncIterator[ScriptedEndpoint]:
    async with ScriptedEndpoint(lambda *_: Reply("hello there"), cache_dtype="float16") as server:
        yield server


async def attach(plan_of: Planner, keys: dict[str, Any]) -> AttachedEngine:
    """The engine of a variant with these keys of `endpoint`, started."""
    plan: Plan = plan_of(variants=[{"name": "f16", "endpoint": keys}], baseline="f16")
    given = plan.variants[0].config.endpoint
    assert given is not None
    engine = AttachedEngine(plan, plan.variants[0], given)
    await engine.start(lambda _: None)
    return engine


async def test_what_the_server_says_is_asked_and_established(plan_of: Planner, server: ScriptedEndpoint) -> None:
    engine = await attach(plan_of, endpoint(server))
    facts = await engine.facts()
    assert (facts.effective_cache_dtype, facts.storage) == ("float16", "native")
    assert (engine.exit_message(), engine.processes()) == (None, [])
    assert [finding.level for finding in engine.findings(facts, None) if finding.level == "error"] == []
    await engine.stop()
    assert server.is_up


async def test_nothing_is_said_to_start_or_stop(plan_of: Planner, server: ScriptedEndpoint, tmp_path: Path) -> None:
    plan: Plan = plan_of(variants=[{"name": "f16", "endpoint": endpoint(server)}], baseline="f16")
    told: list[str] = []
    async with open_session(plan, plan.variants[0], tmp_path / "log", open_engine=open_engine, on_status=told.append):
        pass
    assert (told[0], told[-1]) == ("attaching to the server", "leaving the server as it is")
    assert not [words for words in told if "engine" in words]
    assert server.is_up


async def test_it_waits_while_the_server_is_overloaded(plan_of: Planner, server: ScriptedEndpoint) -> None:
    server.rate_limits = [{}] * 2
    await attach(plan_of, endpoint(server))
    assert server.rate_limits == []


async def test_a_rate_limit_without_end(plan_of: Planner, server: ScriptedEndpoint) -> None:
    server.rate_limits = [{"retry-after": "3600"}]
    with pytest.raises(EngineError, match=r"HTTP 429 for 0 s, and it says to wait 3600 s; use: a server with capacity"):
        await attach(plan_of, endpoint(server))


async def test_a_server_with_another_model(plan_of: Planner, server: ScriptedEndpoint) -> None:
    server.models = [{"id": "other-1"}, {"id": "other-2"}]
    with pytest.raises(FactsError, match=r"has no model 'served' \(endpoint\.model\); use: other-1, other-2$"):
        await attach(plan_of, endpoint(server))


async def test_a_server_that_takes_less_than_the_longest_prompt(plan_of: Planner, server: ScriptedEndpoint) -> None:
    server.models = [{"id": "served", "max_model_len": 256}]
    with pytest.raises(
        FactsError, match=r"takes 256 tokens \(max_model_len\), the longest prompt with its output needs"
    ):
        await attach(plan_of, endpoint(server))


async def test_a_list_of_models_without_end(
    plan_of: Planner, server: ScriptedEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kveval.engines.client.events._MAX_ANSWER_BYTES", 1 << 20)
    server.models = [{"id": "x" * (1 << 21)}]
    with pytest.raises(EngineError, match=r"the answer is longer than 1 MiB$"):
        await attach(plan_of, endpoint(server))


async def test_nothing_answers_there(plan_of: Planner) -> None:
    with pytest.raises(EngineError, match=r"^f16: http://127\.0\.0\.1:\d+: nothing answers there") as caught:
        await attach(plan_of, {"url": f"http://127.0.0.1:{free_port()}", "model": "served"})
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("target", ["https://user:secret@elsewhere.example/v1/models?token=secret", "/v2/models"])
async def test_a_redirect_is_not_followed(plan_of: Planner, server: ScriptedEndpoint, target: str) -> None:
    server.redirects_to = target
    with pytest.raises(EngineError, match="sends to another address, ") as caught:
        await attach(plan_of, endpoint(server))
    assert "secret" not in str(caught.value)
    assert len(server.authorizations) == 1


async def test_a_self_signed_certificate(plan_of: Planner, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    command = [*made.split(), "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    server = ScriptedEndpoint(lambda *_: Reply("hello there"))
    server.tls = (str(key), str(certificate))
    async with server:
        with pytest.raises(EngineError, match=r"its TLS certificate is not accepted .*; use: .* endpoint\.ca_file"):
            await attach(plan_of, endpoint(server))
        engine = await attach(plan_of, endpoint(server, ca_file=str(certificate)))
        async with Client(server.base_url, "served", RequestsConfig(), lambda: None, access=engine.access) as client:
            assert await client.is_healthy()
        with pytest.raises(ConfigError, match=r"endpoint\.ca_file: .*none cannot be read"):
            await attach(plan_of, endpoint(server, ca_file=str(tmp_path / "none")))
        plain = {"url": server.base_url.replace("https", "http"), "model": "served"}
        with pytest.raises(
            KvevalError, match=r"^f16: http://.* breaks off .*; if the server speaks TLS, use: https://"
        ):
            await attach(plan_of, plain)


async def test_tls_of_a_server_without(plan_of: Planner, server: ScriptedEndpoint) -> None:
    with pytest.raises(EngineError, match="it does not speak TLS; use: http://"):
        await attach(plan_of, {"url": server.base_url.replace("http", "https"), "model": "served"})


async def test_a_server_that_takes_no_prompt(plan_of: Planner, server: ScriptedEndpoint) -> None:
    server.handler = lambda *_: Reply(status=404, message="no such path")
    with pytest.raises(EngineError, match="its completion endpoint takes no prompt: HTTP 404"):
        await attach(plan_of, endpoint(server))


async def test_a_model_that_tells_more_of_itself_once_it_is_loaded(plan_of: Planner, server: ScriptedEndpoint) -> None:
    server.models = [{"id": "served", "meta": None}]

    def loads(*_: Any) -> Reply:
        server.models = [{"id": "served", "meta": {"n_params": 7, "size": 9}}]
        return Reply("hello there")

    server.handler = loads
    engine = await attach(plan_of, endpoint(server))
    assert engine.access.served == {"id": "served", "n_params": 7, "size": 9}
    async with Client(server.base_url, "served", RequestsConfig(), lambda: None, access=engine.access) as client:
        assert await client.other_model() is None
        # What it no longer says is no other model.
        server.models = [{"id": "served"}]
        assert await client.other_model() is None
        server.models = [{"id": "served", "meta": {"n_params": 8, "size": 9}}]
        assert "'n_params': 8" in (await client.other_model() or "")


async def test_two_servers_behind_one_address(plan_of: Planner, server: ScriptedEndpoint) -> None:
    def other(*_: Any) -> Reply:
        server.models = [{"id": "served", "root": "/models/two"}]
        return Reply("hello there")

    server.models, server.handler = [{"id": "served", "root": "/models/one"}], other
    with pytest.raises(FactsError, match=r"tells of two models in turn, .*one.*two.*: several servers answer"):
        await attach(plan_of, endpoint(server))


async def test_a_proxy_with_a_name_of_its_own_in_streams(plan_of: Planner, server: ScriptedEndpoint) -> None:
    server.streams_as = "hosted/served"
    engine = await attach(plan_of, endpoint(server))
    facts = await engine.facts()
    assert (facts.answers_as, facts.streams_as) == ("served", "hosted/served")
    assert "two_names" in {finding.code for finding in engine.findings(facts, None)}
    request = EngineRequest(np.arange(1, 33, dtype=np.int32), 16)
    async with Client(server.base_url, "served", RequestsConfig(), lambda: None, access=engine.access) as client:
        assert (await client.ask(request)).error_kind is None
        # The name of a whole answer is another model's in a stream.
        server.streams_as = "served"
        assert (await client.ask(request)).error_kind == "other_model"
