"""Servers that do not answer, answer late, or are something else."""

from __future__ import annotations

import asyncio
import subprocess
import time
from pathlib import Path

import pytest
from support.scripted import Reply
from support.scripted_endpoint import ScriptedEndpoint, answering
from support.sweeps import Planner, Servers, endpoint, records, revoke_after
from support.sweeps import attached_run as run

from kveval.engines.client.dialect import Dialect
from kveval.engines.openai.probe import DialectProbe
from kveval.engines.process import free_port
from kveval.errors import (
    ConfigError,
    EngineError,
    InfrastructureError,
    KvevalError,
)  # fmt: skip


async def test_a_list_of_models_without_end(
    plan_for: Planner, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kveval.engines.client.events._MAX_ANSWER_BYTES", 1 << 20)
    servers["f16"].models = [{"id": "x" * (1 << 21)}]
    with pytest.raises(EngineError, match=r"the answer is longer than 1 MiB$"):
        await run(plan_for(), tmp_path / "run")


async def test_nothing_answers_there(plan_of: Planner, tmp_path: Path) -> None:
    variants = [{"name": "bf16", "endpoint": {"url": f"http://127.0.0.1:{free_port()}", "model": "served"}}]
    with pytest.raises(EngineError, match=r"^bf16: http://127\.0\.0\.1:\d+: nothing answers there") as caught:
        await run(plan_of(variants=variants), tmp_path / "run")
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


async def test_an_unreachable_candidate_fails_alone_and_resume_goes_on(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan = plan_for()
    await servers["q8"].stop()

    manifest = await run(plan, tmp_path / "run")

    assert {name: v.status for name, v in manifest.variants.items()} == {"f16": "complete", "q8": "failed"}
    # As on a machine that has room for one server at a time.
    await servers["q8"].start()
    await servers["f16"].stop()
    manifest = await run(plan, tmp_path / "run", resume=True)
    assert manifest.status == "complete"


async def test_a_rate_limit_is_waited_for(plan_for: Planner, servers: Servers, tmp_path: Path) -> None:
    plan = plan_for(requests={"max_in_flight": 1, "max_attempts": 1, "timeout_s": 20.0})
    revoke_after(servers["q8"], plan, 2, lambda server: server.rate_limits.extend([{"retry-after": "1"}] * 2))
    # Without a time to wait, as while the server is found out about.
    servers["f16"].rate_limits = [{}] * 2

    started = time.monotonic()
    manifest = await run(plan, tmp_path / "run")

    assert manifest.status == "complete"
    assert time.monotonic() - started >= 2
    assert [record.outcome for record in records(tmp_path / "run", "q8")] == ["correct"] * 6
    assert max(record.attempts for record in records(tmp_path / "run", "q8")) == 3


async def test_a_rate_limit_of_the_smoke_questions_refuses_nothing(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan = plan_for(requests={"max_in_flight": 1, "max_attempts": 1, "timeout_s": 20.0})
    find = DialectProbe.find

    async def limited_from_here(self: DialectProbe) -> Dialect:
        dialect = await find(self)
        for server in servers.values():
            server.rate_limits = [{"retry-after": "1"}]
        return dialect

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DialectProbe, "find", limited_from_here)
        manifest = await run(plan, tmp_path / "run")

    assert manifest.status == "complete"
    assert servers["q8"].rate_limits == []
    assert manifest.variants["f16"].smoke.perplexity > 1


async def test_a_rate_limit_without_end_is_an_error_soon(plan_for: Planner, servers: Servers, tmp_path: Path) -> None:
    plan = plan_for(samples=12, requests={"max_in_flight": 1, "timeout_s": 2.0})
    revoke_after(servers["q8"], plan, 2, lambda server: server.rate_limits.extend([{"retry-after": "3600"}] * 999))

    started = time.monotonic()
    manifest = await run(plan, tmp_path / "run")

    assert time.monotonic() - started < 10
    assert manifest.variants["q8"].status == "stopped"
    assert "HTTP 429" in str(manifest.variants["q8"].reason)
    assert manifest.variants["f16"].status == "complete"


@pytest.mark.parametrize("target", ["https://user:secret@elsewhere.example/v1/models?token=secret", "/v2/models"])
async def test_a_redirect_is_not_followed(plan_for: Planner, servers: Servers, tmp_path: Path, target: str) -> None:
    servers["f16"].redirects_to = target
    with pytest.raises(EngineError, match="sends to another address, ") as caught:
        await run(plan_for(), tmp_path / "run")
    assert "secret" not in str(caught.value)
    assert len(servers["f16"].authorizations) == 1


async def test_a_self_signed_certificate(plan_of: Planner, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    await asyncio.to_thread(
        subprocess.run, [*made, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    server = ScriptedEndpoint(lambda *_: Reply("hello there"))
    server.tls = (str(key), str(certificate))
    async with server:
        distrusted = plan_of(variants=[{"name": "bf16", "endpoint": endpoint(server)}])
        with pytest.raises(EngineError, match=r"its TLS certificate is not accepted .*; use: .* endpoint\.ca_file"):
            await run(distrusted, tmp_path / "distrusted")

        trusted = plan_of(variants=[{"name": "bf16", "endpoint": endpoint(server, ca_file=str(certificate))}])
        server.handler = answering(trusted)
        manifest = await run(trusted, tmp_path / "trusted")
        assert manifest.status == "complete"

        missing = endpoint(server, ca_file=str(tmp_path / "none"))
        with pytest.raises(ConfigError, match=r"endpoint\.ca_file: .*none cannot be read"):
            plan_of(variants=[{"name": "bf16", "endpoint": missing}])

        plain = {"url": server.base_url.replace("https", "http"), "model": "served"}
        with pytest.raises(
            KvevalError, match=r"^bf16: http://.* breaks off .*; if the server speaks TLS, use: https://"
        ):
            await run(plan_of(variants=[{"name": "bf16", "endpoint": plain}]), tmp_path / "plain")


async def test_tls_of_a_server_without(plan_of: Planner, tmp_path: Path) -> None:
    async with ScriptedEndpoint(lambda *_: Reply("hello there")) as server:
        secure = {"url": server.base_url.replace("http", "https"), "model": "served"}
        with pytest.raises(EngineError, match="it does not speak TLS; use: http://"):
            await run(plan_of(variants=[{"name": "bf16", "endpoint": secure}]), tmp_path / "run")


async def test_a_server_that_is_no_such_server(plan_for: Planner, servers: Servers, tmp_path: Path) -> None:
    plan = plan_for()
    servers["f16"].handler = lambda *_: Reply(status=404, message="no such path")
    with pytest.raises(EngineError, match="its completion endpoint takes no prompt: HTTP 404"):
        await run(plan, tmp_path / "run")


@pytest.mark.parametrize(
    "raw", ['{"choices": 5}', '{"choices": [{"logprobs": 3}]}', "[]", '{"usage": 3, "choices": [{"text": 4}]}',
            '{"choices": [{"text": "x", "logprobs": {"tokens": 1, "top_logprobs": [1]}}]}', '{"error": "no"}', "<html>",
            '{"choices": [{"text": "x", "logprobs": {"tokens": [1], "top_logprobs": [{"a": "b"}]}}], "model": 3}'],
)  # fmt: skip
async def test_answers_of_another_shape(plan_for: Planner, servers: Servers, tmp_path: Path, raw: str) -> None:
    plan = plan_for()
    servers["f16"].handler = lambda *_: Reply(raw=raw)
    with pytest.raises(InfrastructureError) as caught:
        await run(plan, tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "run" / "manifest.json").is_file()
