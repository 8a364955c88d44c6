from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scripted import Oracle, Reply, ScriptedEngines
from support.sweeps import Planner

from kveval.config.sweep import SweepConfig, validate_config
from kveval.engines.base import Installation
from kveval.errors import ConfigError, PlanError
from kveval.measure.plan.describe import describe
from kveval.measure.plan.manifest import hash_inputs, new_manifest
from kveval.measure.plan.plan import Plan, make_plan
from kveval.measure.plan.prompts import choose_route, server_template
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.resources import tasks_directory
from kveval.run.directory import RunDirectory
from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.task import Task

TEMPLATE = tasks_directory() / "tool_calls" / "chatml_tools.jinja"
PARSER = {"enable-auto-tool-choice": True, "tool-call-parser": "hermes"}
TOOL_FLAGS = {**PARSER, "chat-template": str(TEMPLATE)}
ENDPOINT = {"url": "http://host", "model": "served"}
ATTACHED = {"name": "bf16", "endpoint": ENDPOINT}
TASKS = ["fact_update", "tools_catalogue", "tools_conversation"]


def config_of(model: Path, **changes: Any) -> SweepConfig:
    config: dict[str, Any] = {
        "model": str(model), "variants": ["bf16"], "context_lengths": [2048], "tasks": TASKS, "samples": 5,
        "haystack": "generated", "aa_share": 0.0, "cold_check": 0, "requests": {"timeout_s": 20.0, "max_attempts": 1},
    }  # fmt: skip
    return validate_config(config | changes)


def task_of(form: str | None) -> Task:
    return Task("t", "f", "1", "", str, lambda *_: {}, None, 8, chat_form=form)


@pytest.mark.parametrize(
    ("form", "changes", "route"),
    [
        (None, {}, None),
        ("messages", {}, "chat endpoint (the chat template and the engine's flags allow it)"),
        ("messages", {"prompt_style": "completion"}, "text (prompt_style is completion)"),
        ("tools", {}, "text (the engine of bf16 is started without enable-auto-tool-choice and tool-call-parser)"),
        ("tools", {"engine": {"args": {"tool_call_parser": "hermes"}}},
         "text (the engine of bf16 is started without enable-auto-tool-choice)"),
        ("messages", {"variants": [ATTACHED]}, "text (variants.bf16.endpoint.chat is none)"),
        ("messages", {"variants": [{**ATTACHED, "endpoint": {**ENDPOINT, "chat": "messages"}}]},
         "chat endpoint (the chat template and the engine's flags allow it)"),
        ("tools", {"variants": [{**ATTACHED, "endpoint": {**ENDPOINT, "chat": "messages"}}]},
         "text (variants.bf16.endpoint.chat is messages)"),
        ("tools", {"variants": [{**ATTACHED, "endpoint": {**ENDPOINT, "chat": "tools"}}]},
         "text (the chat template does not render tools)"),
        ("tools", {"engine": {"args": PARSER}}, "text (the chat template does not render tools)"),
        ("tools", {"engine": {"args": TOOL_FLAGS}},
         "chat endpoint with tools (the chat template and the engine's flags allow it)"),
        ("tools", {"engine": {"args": TOOL_FLAGS},
                   "variants": ["bf16", {"name": "fp8", "engine_args": {"tool-call-parser": None}}]},
         "text (the engine of fp8 is started without tool-call-parser)"),
    ],
)  # fmt: skip
def test_the_way_is_what_template_and_flags_allow(
    smollm2: Path, form: str | None, changes: dict[str, Any], route: str | None
) -> None:
    config = config_of(smollm2, **changes)
    chosen = choose_route(task_of(form), config, ChatTemplate(smollm2, {}, server_template(config)))
    assert (None if chosen is None else f"{chosen.name} ({chosen.reason})") == route


def test_a_model_without_a_template_is_asked_in_text(plan_of: Callable[..., Plan]) -> None:
    plan = plan_of(tasks=TASKS, context_lengths=[2048], engine={"args": PARSER})
    assert {route.form for route in plan.routes.values()} == {"text"}
    assert {route.reason for route in plan.routes.values()} == {"the model has no chat template"}
    assert all(sample.chat is None for sample in plan.samples)


def test_the_engines_template_is_read(smollm2: Path, tmp_path: Path) -> None:
    assert server_template(config_of(smollm2)) is None
    assert server_template(config_of(smollm2, engine={"args": TOOL_FLAGS})) == TEMPLATE.read_text()
    assert server_template(config_of(smollm2, engine={"args": {"chat_template": "{{ x }}"}})) == "{{ x }}"
    with pytest.raises(ConfigError, match=r"chat-template: .*nothing cannot be read"):
        server_template(config_of(smollm2, engine={"args": {"chat-template": str(tmp_path / "nothing")}}))
    variants = ["bf16", {"name": "fp8", "engine_args": {"chat-template": "{{ y }}"}}]
    with pytest.raises(PlanError, match="chat-template: differs between variants bf16, fp8"):
        server_template(config_of(smollm2, variants=variants))


@pytest.fixture
def plan(smollm2: Path, installation: Installation) -> Plan:
    return make_plan(config_of(smollm2, engine={"args": TOOL_FLAGS}), installation)


def test_a_run_says_how_its_tasks_were_asked(plan: Plan) -> None:
    asked = new_manifest(plan).sampling["asked_through"]
    assert asked == {
        "fact_update": "chat endpoint", "tools_catalogue": "chat endpoint with tools",
        "tools_conversation": "chat endpoint with tools",
    }  # fmt: skip
    assert describe(plan)["asked_through"]["fact_update"].startswith("chat endpoint (")
    assert "chat template of the engine" in hash_inputs(plan)
    assert {sample.doc["asked_through"] for sample in plan.samples} == set(asked.values())


async def test_an_oracle_scores_one_through_the_chat_endpoint(plan: Plan, tmp_path: Path) -> None:
    engines = ScriptedEngines(oracle := Oracle(plan))
    engines.options["bf16"] = {"chat_prompt": oracle.chat_prompt}
    manifest = await sweep(plan, tmp_path / "run", resume=False, reporter=SilentReporter(), open_engine=engines)

    assert manifest.status == "complete"
    records = list(RunDirectory(tmp_path / "run").records("bf16"))
    assert Counter((record.task, record.outcome) for record in records) == {(task, "correct"): 5 for task in TASKS}
    called = [record for record in records if record.finish_reason == "tool_calls"]
    assert len(called) == 8
    for record in called:
        assert all(call.keys() == {"name", "arguments"} for call in json.loads(record.output))
    paths = [body.keys() & {"prompt", "messages"} for body in engines.servers["bf16"].requests]
    assert Counter(map(tuple, paths))[("messages",)] == 15


async def test_a_server_that_makes_other_tokens_of_the_messages_is_not_scored(plan: Plan, tmp_path: Path) -> None:
    oracle = Oracle(plan)
    engines = ScriptedEngines(lambda _prompt, _body: Reply("anything"))
    engines.options["bf16"] = {"chat_prompt": lambda body: [*oracle.chat_prompt(body)[:-1], 7]}
    await sweep(plan, tmp_path / "run", resume=False, reporter=SilentReporter(), open_engine=engines)

    for record in RunDirectory(tmp_path / "run").records("bf16"):
        assert record.outcome == "engine_error"
        assert record.error is not None
        assert record.error.kind == "prompt_changed"
        assert "other prompt tokens" in record.error.message


@pytest.mark.parametrize("differs", ["tokenizer", "chat_template"])
def test_a_variants_own_checkpoint_must_spell_prompts_alike(
    plan_of: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, differs: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")

    def load(path: Path, *_: object) -> PromptFormat:
        plain = PromptFormat.stand_in()
        return dataclasses.replace(plain, **{f"{differs}_sha256": "0"}) if path == other else plain

    monkeypatch.setattr(PromptFormat, "load", load)
    with pytest.raises(PlanError, match=rf"variants\.fp8\.model: its {differs.replace('_', ' ')} differs"):
        plan_of(variants=["bf16", {"name": "fp8", "model": str(other)}])
