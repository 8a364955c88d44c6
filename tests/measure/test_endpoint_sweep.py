"""Sweeps of servers that already run, against scripted ones over real HTTP."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import tenacity
from support.scripted import Oracle, Reply
from support.scripted_endpoint import BARE, KEY, ScriptedEndpoint, answering, tokenizer_of

from kveval.config.sweep import validate_config
from kveval.engines.client.dialect import Dialect
from kveval.engines.installation import NOTHING_TO_LAUNCH
from kveval.engines.openai.probe import DialectProbe
from kveval.engines.ports import free_port
from kveval.errors import (
    ConfigError,
    EngineError,
    FactsError,
    InfrastructureError,
    KvevalError,
    PlanError,
    ResumeError,
)  # fmt: skip
from kveval.measure.plan.describe import describe
from kveval.measure.plan.plan import Plan, make_plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.run.directory import RunDirectory
from kveval.run.logprobs import unpack_logprobs
from kveval.run.manifest import Manifest, VariantRun
from kveval.run.records import Record

Planner = Callable[..., Plan]
Servers = dict[str, ScriptedEndpoint]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.engines.client.client._BACKOFF", tenacity.wait_none())
    monkeypatch.setattr("kveval.engines.openai.engine._DEFAULT_RETRY_SECONDS", 0.01)
    monkeypatch.setattr("kveval.measure.provenance.git_state", lambda _: None)


@pytest.fixture
def installation() -> Any:
    """No vLLM anywhere."""
    return NOTHING_TO_LAUNCH


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    """One for the baseline and one for the candidate, up; their handlers are set by `plan_for`."""
    both = {
        "f16": ScriptedEndpoint(lambda *_: Reply("hello there"), cache_dtype="float16"),
        "q8": ScriptedEndpoint(lambda *_: Reply("hello there"), cache_dtype="q8_0", capacity_tokens=2_000_000),
    }
    for server in both.values():
        await server.start()
    yield both
    for server in both.values():
        await server.stop()


def endpoint(server: ScriptedEndpoint, **keys: Any) -> dict[str, Any]:
    return {"url": server.base_url, "model": "served", **keys}


@pytest.fixture
def plan_for(plan_of: Planner, servers: Servers) -> Planner:
    """A plan of both servers; `f16` and `q8` are further keys of their endpoints."""

    def plan(f16: dict[str, Any] | None = None, q8: dict[str, Any] | None = None, **changes: Any) -> Plan:
        variants = [
            {"name": "f16", "endpoint": endpoint(servers["f16"], **(f16 or {}))},
            {"name": "q8", "kv_cache_dtype": "q8_0", "endpoint": endpoint(servers["q8"], **(q8 or {}))},
        ]
        made = plan_of(**{"variants": variants, "baseline": "f16", **changes})
        for server in servers.values():
            server.handler = answering(made)
            server.tokenize = tokenizer_of(made)
        return made

    return plan


async def run(plan: Plan, out: Path, *, resume: bool = False, **options: Any) -> Manifest:
    return await sweep(plan, out, resume=resume, reporter=SilentReporter(), **options)


def records(out: Path, variant: str) -> list[Record]:
    return list(RunDirectory(out).records(variant))


def codes(variant: VariantRun) -> dict[str, str]:
    return {finding.code: finding.level for finding in variant.findings}


async def test_servers_like_vllm_reveal_their_facts(plan_for: Planner, servers: Servers, tmp_path: Path) -> None:
    plan = plan_for(aa_share=1.0)

    manifest = await run(plan, tmp_path / "run")

    assert manifest.status == "complete"
    for name in ("f16", "f16-aa", "q8"):
        assert [record.outcome for record in records(tmp_path / "run", name)] == ["correct"] * 6
    facts = manifest.variants["q8"].facts
    assert facts.effective_cache_dtype == "q8_0"
    assert facts.engine_version == "vLLM scripted"
    assert facts.kv_capacity_ratio == 2.0
    assert facts.declared == []
    assert facts.prompt_form == "token_ids"
    assert facts.lacks == []
    assert codes(manifest.variants["q8"]) == {"device_unknown": "warning", "unknown": "warning"}
    assert all(server.is_up for server in servers.values())
    assert records(tmp_path / "run", "q8")[0].logprobs is not None


async def test_an_aa_run_asks_the_same_server_past_its_cache_and_says_so(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    manifest = await run(plan_for(aa_share=1.0), tmp_path / "run")

    finding = next(f for f in manifest.variants["f16-aa"].findings if f.code == "aa_same_server")
    assert finding.level == "info"
    assert "not a second launch, past what" in finding.message
    salts = [body.get("cache_salt") for body in servers["f16"].requests]
    assert salts.count("kveval-aa") == 6


async def test_a_bare_server_is_asked_in_text_and_what_it_lacks_is_found(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    for server in servers.values():
        server.lacks = set(BARE)
    plan = plan_for(q8={"declared": {"engine_version": "llama.cpp 1", "kv_capacity_tokens": 4096}}, aa_share=1.0)

    manifest = await run(plan, tmp_path / "run")

    assert manifest.status == "complete"
    answers = records(tmp_path / "run", "q8")
    assert [record.outcome for record in answers] == ["correct"] * 6
    assert {record.prompt_tokens - record.context_length <= 8 for record in answers if record.prompt_tokens} == {True}
    assert all(record.ttft_ms is None and record.logprobs is None for record in answers)
    assert all(record.output_tokens == 3 for record in answers)
    assert all(isinstance(body["prompt"], list) for body in servers["q8"].requests)
    facts, found = manifest.variants["q8"].facts, codes(manifest.variants["q8"])
    assert facts.declared == ["effective_cache_dtype", "engine_version", "kv_capacity_tokens"]
    assert facts.prompt_form == "text"
    assert {"no_token_ids", "no_logprobs", "no_perplexity", "no_streamed_usage", "declared", "unknown"} <= set(found)
    assert "error" not in found.values()
    unknown = next(f.message for f in manifest.variants["q8"].findings if f.code == "unknown")
    assert "attention_backend" in unknown
    assert "kv_capacity_tokens" not in unknown
    same = next(f.message for f in manifest.variants["f16-aa"].findings if f.code == "aa_same_server")
    assert "it may answer from what the first time left" in same


async def test_tokens_that_are_named_by_text_are_kept_by_id(
    plan_for: Planner, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_for()
    servers["q8"].lacks = {"logprobs_by_id"}
    lost = plan.samples[0].doc["answers"][0]
    values = {sample.doc["answers"][0]: 100 + number for number, sample in enumerate(plan.samples[1:])}
    ids = {"they ": 5, "are ": 6, **values}
    monkeypatch.setattr(type(plan.prompt_format), "ids_by_text", ids)

    await run(plan, tmp_path / "run")

    for record in records(tmp_path / "run", "q8"):
        if lost in record.output:
            assert record.output_token_ids == []
            assert record.logprobs is None
            continue
        assert record.output_token_ids == [5, 6, values[record.output.split()[-1]]]
        assert record.logprobs is not None
        top_ids, _ = unpack_logprobs(record.logprobs)
        assert top_ids.tolist() == [[token] for token in record.output_token_ids]
    assert codes((RunDirectory(tmp_path / "run").read_manifest()).variants["q8"])["no_logprobs_by_id"] == "info"


async def test_a_server_that_adds_a_beginning_of_sequence_is_noticed(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan = plan_for()
    for server in servers.values():
        server.lacks = {"token_ids"}
        server.adds_bos = True

    with pytest.raises(
        FactsError, match="counts 1 more tokens in a prompt than the model's tokenizer: a second beginn"
    ):
        await run(plan, tmp_path / "run")

    assert records(tmp_path / "run", "f16") == []


async def test_a_bos_that_the_server_adds_itself_is_left_out_of_ours(
    plan_for: Planner, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_for()
    monkeypatch.setattr(type(plan.prompt_format), "begins_with_bos", True)
    text_of = plan.prompt_format.decode
    bare = {text_of(sample.prompt.token_ids()[1:]): sample.prompt.token_ids().tolist() for sample in plan.samples}
    for server in servers.values():
        server.lacks = {"token_ids"}
        plain = server.tokenize

        # One token more than ours of a whole prompt; the prompt itself once its first token is left out.
        def tokenize(text: str, plain: Callable[[str], list[int]] = plain) -> list[int]:
            return bare[text] if text in bare else [1, *plain(text)]

        server.tokenize = tokenize
    monkeypatch.setattr(type(plan.prompt_format), "spell", lambda _, ids: (text_of(ids), len(ids)))
    monkeypatch.setattr("kveval.engines.openai.engine._PROBE", "oslo")

    manifest = await run(plan, tmp_path / "run")

    assert manifest.variants["q8"].facts.prompt_form == "text_without_bos"
    assert codes(manifest.variants["q8"])["bos_added"] == "info"
    assert [record.outcome for record in records(tmp_path / "run", "q8")] == ["correct"] * 6


async def test_a_server_that_counts_nothing_is_warned_about(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan = plan_for()
    servers["q8"].lacks = {"usage"}
    manifest = await run(plan, tmp_path / "run")
    assert manifest.status == "complete"
    assert codes(manifest.variants["q8"])["no_usage"] == "warning"


async def test_one_field_that_is_refused_is_left_out(plan_for: Planner, servers: Servers, tmp_path: Path) -> None:
    plan = plan_for()
    servers["f16"].lacks = {"cache_salt", "seed"}

    manifest = await run(plan, tmp_path / "run")

    assert manifest.status == "complete"
    assert manifest.variants["f16"].facts.lacks == ["cache_salt"]
    assert all("cache_salt" not in body for body in servers["f16"].requests)


async def test_an_effective_dtype_that_contradicts_the_configuration_is_an_error(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan = plan_for()
    servers["q8"].cache_dtype = "float16"

    manifest = await run(plan, tmp_path / "run")

    assert manifest.variants["q8"].status == "refused"
    assert "q8_0 is what the configuration says, the server stores float16" in str(manifest.variants["q8"].reason)


async def test_a_cache_of_the_models_own_dtype_is_no_mismatch(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan = plan_for()
    servers["f16"].cache_dtype = "auto"
    manifest = await run(plan, tmp_path / "run")
    assert manifest.status == "complete"
    assert codes(manifest.variants["f16"])["dtype_auto"] == "warning"


async def test_an_unchanged_capacity_is_a_warning_because_memory_may_differ(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan = plan_for()
    servers["q8"].capacity_tokens = 1_000_000
    manifest = await run(plan, tmp_path / "run")
    assert manifest.status == "complete"
    assert codes(manifest.variants["q8"])["capacity_unchanged"] == "warning"


async def test_the_key_is_sent_and_written_nowhere(
    plan_for: Planner, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kveval.report.html.report import build_report

    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    for server in servers.values():
        server.api_key = KEY
    plan = plan_for({"api_key_env": "SCRIPTED_KEY"}, {"api_key_env": "SCRIPTED_KEY"})
    known = {tuple(sample.prompt.token_ids().tolist()): number for number, sample in enumerate(plan.samples)}
    answer = servers["q8"].handler

    def repeats_the_key(prompt: list[int], body: dict[str, Any]) -> Reply:
        is_second = known.get(tuple(prompt)) == 1 and body.get("cache_salt") != "kveval-smoke"
        return Reply(status=400, message=f"no answer for {KEY}") if is_second else answer(prompt, body)

    servers["q8"].handler = repeats_the_key
    out = tmp_path / "run"
    await run(plan, out)
    build_report(out)

    assert set(servers["f16"].authorizations) == {f"Bearer {KEY}"}
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {"manifest.json", "report.html", "q8.jsonl"} <= {path.name for path in files}
    assert all(KEY.encode() not in path.read_bytes() for path in files)
    assert "no answer for (key)" in (out / "records" / "q8.jsonl").read_text()
    assert KEY not in repr(describe(plan))


def _hidden_in(out: Path) -> None:
    from kveval.report.html.report import build_report

    build_report(out)
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {"manifest.json", "report.html"} <= {path.name for path in files}
    for path in files:
        assert KEY[:12].encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    "change",
    [
        {"answers_as": f"m-{KEY}"},
        {"models": [{"id": "served", "root": f"/m/{KEY}", "max_model_len": 1 << 20}]},
        {"version": KEY},
        {"version": f"1+{KEY[:17]}"},
        {"capacity_tokens": KEY},
        {"says": f"Bearer {KEY}"},
        {"says": KEY[:13]},
        {"says": f"one-{KEY}", "lacks": set(BARE)},
        {"refuses": "x" * 485},
        {"refuses": "x" * 1985},
        {"refuses": ""},
    ],
)
async def test_whatever_a_server_repeats_the_key_in_nothing_that_is_kept_holds_it(
    plan_for: Planner, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    plan = plan_for({"api_key_env": "SCRIPTED_KEY"}, {"api_key_env": "SCRIPTED_KEY"}, aa_share=1.0)
    answer, known = servers["q8"].handler, {tuple(sample.prompt.token_ids().tolist()) for sample in plan.samples}
    said, refused = change.get("says"), change.get("refuses")

    def repeats_the_key(prompt: list[int], body: dict[str, Any]) -> Reply:
        reply = answer(prompt, body)
        if said is not None:
            reply.text += f" {said}"
        is_sample = tuple(prompt) in known and body.get("cache_salt") != "kveval-smoke"
        return reply if refused is None or not is_sample else Reply(status=400, message=refused + KEY)

    for server in servers.values():
        server.api_key = KEY
        server.handler = repeats_the_key
        for name, value in change.items():
            setattr(server, name, value)

    manifest = await run(plan, tmp_path / "run")

    assert manifest.status == "complete"
    _hidden_in(tmp_path / "run")
    if said is not None:
        assert manifest.variants["q8"].smoke["output"].endswith("(key)")
        assert {record.outcome for record in records(tmp_path / "run", "q8")} == {"correct"}


async def test_a_server_whose_refusals_repeat_the_key(
    plan_for: Planner, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    messages = []
    for number, change in enumerate(
        [
            {"models": [{"id": f"for-{KEY}"}, {"id": "y" * 190 + KEY}]},
            {"handler": lambda *_: Reply(status=404, message="x" * 250 + KEY)},
            {"handler": lambda *_: Reply(status=404, message="x" * 455 + KEY)},
            {"handler": lambda *_: Reply(raw=json.dumps({"error": "x" * 285 + KEY}))},
            {"redirects_to": f"/for/{KEY}"},
        ]
    ):
        plan = plan_for({"api_key_env": "SCRIPTED_KEY"})
        for name, value in change.items():
            setattr(servers["f16"], name, value)
        with pytest.raises(KvevalError) as caught:
            await run(plan, tmp_path / str(number))
        messages.append(str(caught.value))
        assert KEY[:5] not in messages[-1]
        assert KEY[:5] not in (tmp_path / str(number) / "manifest.json").read_text()
        servers["f16"].models = [{"id": "served", "max_model_len": 1 << 20}]
    assert "use: for-(key), yyy" in messages[0]
    assert "sends to another address, /for/(key), and" in messages[-1]


async def test_a_list_of_models_without_end(
    plan_for: Planner, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kveval.engines.client.bounds._MAX_ANSWER_BYTES", 1 << 20)
    servers["f16"].models = [{"id": "x" * (1 << 21)}]
    with pytest.raises(EngineError, match=r"the answer is longer than 1 MiB$"):
        await run(plan_for(), tmp_path / "run")


async def test_conversations_go_to_a_chat_endpoint_that_is_said_to_be_there(smollm2: Path, tmp_path: Path) -> None:
    server = ScriptedEndpoint(lambda *_: Reply("hello there"))
    async with server:
        config = validate_config(
            {
                "model": str(smollm2), "variants": [{"name": "bf16", "endpoint": endpoint(server, chat="messages")}],
                "context_lengths": [2048], "tasks": ["fact_update"], "samples": 3, "haystack": "generated",
                "aa_share": 0.0, "cold_check": 0,
            }
        )  # fmt: skip
        plan = make_plan(config, NOTHING_TO_LAUNCH)
        server.handler, server.chat_prompt = answering(plan), Oracle(plan).chat_prompt
        manifest = await run(plan, tmp_path / "run")

        assert manifest.status == "complete"
        assert [record.outcome for record in records(tmp_path / "run", "bf16")] == ["correct"] * 3
        assert sum("messages" in body for body in server.requests) == 3

        server.lacks = {"chat"}
        with pytest.raises(
            FactsError, match=r"endpoint\.chat is messages, but the server's chat endpoint does not answer"
        ):
            await run(plan, tmp_path / "refused")


async def test_a_wrong_key(
    plan_for: Planner, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", "sk-wrong")
    servers["f16"].api_key = KEY
    with pytest.raises(EngineError, match=r"HTTP 401, the key in SCRIPTED_KEY is not accepted$") as caught:
        await run(plan_for({"api_key_env": "SCRIPTED_KEY"}), tmp_path / "run")
    assert caught.value.exit_code == 3
    assert "sk-wrong" not in str(caught.value)
    assert "sk-wrong" not in (tmp_path / "run" / "manifest.json").read_text()


async def test_no_key_where_one_is_wanted(plan_for: Planner, servers: Servers, tmp_path: Path) -> None:
    servers["f16"].api_key = KEY
    with pytest.raises(EngineError, match=r"HTTP 401, it wants a key; set endpoint\.api_key_env"):
        await run(plan_for(), tmp_path / "run")


@pytest.mark.parametrize("value", [None, "", "with space", "line\nbreak", "ключ"])
def test_a_key_that_is_unset_or_none(plan_for: Planner, monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("SCRIPTED_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SCRIPTED_KEY", value)
    with pytest.raises(ConfigError, match=r"^variants\.f16\.endpoint\.api_key_env: .*SCRIPTED_KEY") as caught:
        plan_for({"api_key_env": "SCRIPTED_KEY"})
    assert caught.value.exit_code == 2
    assert not value or value not in str(caught.value)


async def test_a_key_revoked_midway_stops_the_variant_and_costs_no_answer(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan = plan_for(requests={"max_in_flight": 1, "max_attempts": 1})
    revoke_after(servers["q8"], plan, 3, lambda server: setattr(server, "api_key", KEY))

    manifest = await run(plan, tmp_path / "run")

    q8 = manifest.variants["q8"]
    assert q8.status == "stopped"
    assert "HTTP 401" in str(q8.reason)
    assert "attached once more: " in str(q8.reason)
    assert {record.outcome for record in records(tmp_path / "run", "q8")} == {"correct"}
    servers["q8"].api_key = None
    manifest = await run(plan, tmp_path / "run", resume=True)
    assert manifest.status == "complete"
    assert len(records(tmp_path / "run", "q8")) == 6


def revoke_after(
    server: ScriptedEndpoint, plan: Plan, answers: int, change: Callable[[ScriptedEndpoint], None]
) -> None:
    """Changes `server` once it has answered so many samples of `plan`."""
    handler, known = server.handler, {tuple(sample.prompt.token_ids().tolist()) for sample in plan.samples}
    answered = 0

    def handle(prompt: list[int], body: dict[str, Any]) -> Reply:
        nonlocal answered
        is_sample = tuple(prompt) in known and body.get("cache_salt") != "kveval-smoke"
        answered += is_sample
        if is_sample and answered == answers + 1:
            change(server)
        return handler(prompt, body)

    server.handler = handle


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


async def test_a_server_with_another_model(plan_for: Planner, servers: Servers, tmp_path: Path) -> None:
    servers["f16"].models = [{"id": "other-1"}, {"id": "other-2"}]
    with pytest.raises(FactsError, match=r"has no model 'served' \(endpoint\.model\); use: other-1, other-2$"):
        await run(plan_for(), tmp_path / "run")


async def test_a_server_that_takes_less_than_the_longest_prompt(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    servers["f16"].models = [{"id": "served", "max_model_len": 256}]
    with pytest.raises(
        FactsError, match=r"takes 256 tokens \(max_model_len\), the longest prompt with its output needs"
    ):
        await run(plan_for(), tmp_path / "run")


def test_a_declared_window_is_planned_with(plan_for: Planner) -> None:
    with pytest.raises(PlanError, match=r"context_lengths: 512 with .* does not fit"):
        plan_for({"declared": {"max_model_len": 300}})


@pytest.mark.parametrize("how", ["answers", "listed", "root"])
async def test_a_model_that_changes_midway_stops_the_variant(
    plan_for: Planner, servers: Servers, tmp_path: Path, how: str
) -> None:
    plan = plan_for(requests={"max_in_flight": 1})

    def change(server: ScriptedEndpoint) -> None:
        if how == "answers":
            server.answers_as = "another"
        else:
            server.models = [{"id": "another"}] if how == "listed" else [{"id": "served", "root": "/models/another"}]

    revoke_after(servers["q8"], plan, 3, change)

    manifest = await run(plan, tmp_path / "run")

    q8 = manifest.variants["q8"]
    assert q8.status == "stopped"
    assert "another" in str(q8.reason)
    assert len(records(tmp_path / "run", "q8")) == 3
    assert manifest.variants["f16"].status == "complete"
    if how != "listed":
        with pytest.raises(ResumeError, match="q8 was"):
            await run(plan, tmp_path / "run", resume=True)


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
    assert manifest.variants["f16"].smoke["perplexity"] > 1


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


async def test_resume_asks_only_what_is_missing(plan_for: Planner, servers: Servers, tmp_path: Path) -> None:
    plan = plan_for(samples=12, requests={"max_in_flight": 1, "max_attempts": 1})
    reply = servers["q8"].handler
    revoke_after(servers["q8"], plan, 3, lambda server: setattr(server, "handler", lambda *_: Reply(status=500)))

    manifest = await run(plan, tmp_path / "run")

    assert manifest.variants["q8"].status == "stopped"
    done = {record.sample_id for record in records(tmp_path / "run", "q8")}
    servers["q8"].handler = reply
    servers["q8"].requests.clear()
    manifest = await run(plan, tmp_path / "run", resume=True)
    assert manifest.status == "complete"
    assert len(records(tmp_path / "run", "q8")) == 12
    asked = [body for body in servers["q8"].requests if len(body["prompt"]) > 400 and "cache_salt" not in body]
    assert len(asked) == 12 - len(done) > 0


def test_a_plan_says_what_is_declared_and_launches_nothing(plan_for: Planner) -> None:
    plan = describe(plan_for(q8={"declared": {"attention_backend": "ggml"}}))
    assert plan["engine_launches"] == 0
    assert plan["engine"] == "servers that already run"
    assert plan["estimate"]["seconds"] is None
    assert plan["variants"][1]["kv_cache_dtype"] == "q8_0 (declared)"
    assert plan["variants"][1]["endpoint"].endswith("; declared: attention_backend ggml")
    json.dumps(plan)
