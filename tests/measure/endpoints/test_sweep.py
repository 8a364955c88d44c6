"""A sweep over servers that already run: what they reveal, lack and change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.scripted import Oracle, Reply
from support.scripted_endpoint import BARE, ScriptedEndpoint, answering
from support.sweeps import Planner, Servers, codes, endpoint, records, revoke_after
from support.sweeps import attached_run as run

from kveval.config.sweep import validate_config
from kveval.engines.base import NOTHING_TO_LAUNCH
from kveval.errors import (
    FactsError,
)  # fmt: skip
from kveval.measure.plan.describe import describe
from kveval.measure.plan.plan import make_plan
from kveval.run.directory import RunDirectory
from kveval.run.records import unpack_logprobs


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
    assert codes(manifest.variants["q8"]) == {
        "device_unknown": "warning",
        "unknown": "warning",
        "no_forced_decode": "info",
    }
    assert all(server.is_up for server in servers.values())
    assert records(tmp_path / "run", "q8")[0].logprobs is not None


async def test_an_aa_run_asks_the_same_server_past_its_cache_and_says_so(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    manifest = await run(plan_for(aa_share=1.0), tmp_path / "run")

    finding = next(f for f in manifest.variants["f16-aa"].findings if f.code == "aa_same_server")
    assert finding.level == "info"
    assert "not a second launch; a new cache_salt hides what" in finding.message
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
        # The first asks what its streams call the model.
        assert sum("messages" in body for body in server.requests) == 1 + 3

        server.lacks = {"chat"}
        with pytest.raises(
            FactsError, match=r"endpoint\.chat is messages, but the server's chat endpoint does not answer"
        ):
            await run(plan, tmp_path / "refused")


async def test_resume_asks_only_what_is_missing(plan_for: Planner, servers: Servers, tmp_path: Path) -> None:
    plan = plan_for(samples=12, requests={"max_in_flight": 1, "max_attempts": 1}, judge={"max_unanswered_share": 0.9})
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
    budget = plan.samples[0].max_output_tokens
    asked = [body for body in servers["q8"].requests if body["max_tokens"] == budget]
    assert len(asked) == 12 - len(done) > 0


def test_a_plan_says_what_is_declared_and_launches_nothing(plan_for: Planner) -> None:
    plan = describe(plan_for(q8={"declared": {"attention_backend": "ggml"}}))
    assert plan["engine_launches"] == 0
    assert plan["engine"] == "servers that already run"
    assert plan["estimate"]["seconds"] is None
    assert plan["variants"][1]["kv_cache_dtype"] == "q8_0 (declared)"
    assert plan["variants"][1]["endpoint"].endswith("; declared: attention_backend ggml")
    json.dumps(plan)
