"""One's own prompts and lm-eval's tasks through planning, asking and judging."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.scripted import Oracle, Reply, ScriptedEngines, always
from support.sweeps import Planner, run

from kveval.errors import ConfigError, PlanError, ResumeError
from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.gate.gate import gate
from kveval.judge.run_data import load_run
from kveval.measure.plan.describe import describe
from kveval.measure.plan.plan import Plan
from kveval.report.documents.summary import summary
from kveval.report.html.report import build_report
from kveval.report.terminal.summary import summary_table
from kveval.run.directory import RunDirectory

PAGE = "The harbour was quiet in the early morning. " * 150


@pytest.fixture(autouse=True)
def _without_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


def scored(count: int, *, start: str = "") -> list[dict[str, Any]]:
    return [
        {"prompt": f"{start}Note {number}: the code is {1000 + number}. What is the code?", "answer": 1000 + number}
        for number in range(count)
    ]


def unscored(count: int, *, start: str = "") -> list[dict[str, Any]]:
    return [{"prompt": f"{start}Write about {number}.", "scorer": "none"} for number in range(count)]


def rows_file(folder: Path, rows: list[dict[str, Any]], name: str = "mine") -> dict[str, str]:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"file": str(path)}


def lm_eval_file(folder: Path) -> str:
    (folder / "rows.json").write_text(
        json.dumps([{"q": "Capital of France?", "a": "Paris"}, {"q": "2 + 2?", "a": "4"}])
    )
    task = {
        "task": "tiny_qa", "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "rows.json")}},
        "output_type": "generate_until", "test_split": "test", "doc_to_text": "{{q}}", "doc_to_target": "{{a}}",
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8}, "metadata": {"version": 1},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip
    (folder / "tiny_qa.yaml").write_text(yaml.safe_dump(task))
    return f"lm_eval:{folder / 'tiny_qa.yaml'}"


class Answers(Oracle):
    """The right answer alone, or a sentence; `worse`: another sentence for what is not scored, and nothing right."""

    def __init__(self, plan: Plan, *, worse: bool = False) -> None:
        super().__init__(plan)
        self.worse = worse

    def __call__(self, prompt: list[int], body: dict[str, Any]) -> Reply:
        doc = self.sample(prompt).doc
        if self.worse:
            return Reply("something else altogether")
        return Reply(doc["answers"][0] if doc["answers"] else "a fine sentence")


def test_given_prompts_are_planned_beside_generated_ones(plan_of: Planner, tmp_path: Path) -> None:
    rows = [*scored(3), *scored(2, start=PAGE), {**scored(1)[0], "prompt": f"{PAGE}Which?", "cluster": "a"}]
    plan = plan_of(tasks=["niah_single", rows_file(tmp_path, rows), lm_eval_file(tmp_path)])
    assert Counter((sample.task, sample.context_length) for sample in plan.samples) == {
        ("niah_single", 512): 6, ("mine", 1024): 3, ("mine", 2048): 3, ("lm_eval:tiny_qa", 1024): 2,
    }  # fmt: skip
    assert plan.max_model_len > max(len(sample.prompt) + sample.max_output_tokens for sample in plan.samples)
    document = describe(plan)
    assert document["samples"] == 14
    assert [(row["task"], row["context_length"], row["samples"], row["haystack"]) for row in document["cells"]] == [
        ("niah_single", 512, 6, "generated"), ("mine", 1024, 3, "as given"), ("mine", 2048, 3, "as given"),
        ("lm_eval:tiny_qa", 1024, 2, "as given"),
    ]  # fmt: skip
    json.dumps(document, allow_nan=False)


def test_context_lengths_are_not_needed_for_given_prompts(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(tasks=[rows_file(tmp_path, scored(2))], context_lengths=[])
    assert len(plan.samples) == 2


def test_a_bad_row_ends_planning_before_the_model_is_read(
    plan_of: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kveval.measure.plan.prompts.PromptFormat.load", lambda *_: pytest.fail("read the tokenizer"))
    with pytest.raises(ConfigError, match=r"mine\.jsonl line 2: answer: not given"):
        plan_of(tasks=[rows_file(tmp_path, [*scored(1), {"prompt": "x"}])])


def test_a_row_longer_than_the_models_window_is_refused(plan_of: Planner, tmp_path: Path) -> None:
    rows = [*scored(1), *scored(1, start=PAGE * 6)]
    with pytest.raises(PlanError, match=r"mine\.jsonl line 2: \d+ prompt tokens and 256 output tokens do not fit"):
        plan_of(tasks=[rows_file(tmp_path, rows)])
    with pytest.raises(PlanError, match=r"line 1: .* do not fit max-model-len of bf16 \(258 tokens\); the output"):
        plan_of(tasks=[rows_file(tmp_path, rows)], engine={"args": {"max-model-len": 258}})


def test_two_lm_eval_tasks_of_one_name_are_refused(plan_of: Planner, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(ConfigError, match="lm_eval:tiny_qa is listed twice"):
        plan_of(tasks=[lm_eval_file(tmp_path), lm_eval_file(other)])


async def test_own_prompts_and_an_lm_eval_task_are_asked_scored_and_judged(plan_of: Planner, tmp_path: Path) -> None:
    rows = [*scored(6), *unscored(3)]
    plan = plan_of(tasks=[rows_file(tmp_path, rows), lm_eval_file(tmp_path)])
    engines = ScriptedEngines(Answers(plan))
    engines.handlers["fp8"] = Answers(plan, worse=True)
    out = tmp_path / "run"
    assert (await run(plan, out, engines)).status == "complete"
    by_variant = {
        name: Counter((record.task, record.outcome) for record in RunDirectory(out).records(name))
        for name in ("bf16", "fp8")
    }
    assert by_variant == {
        "bf16": {("mine", "correct"): 6, ("mine", "unscored"): 3, ("lm_eval:tiny_qa", "correct"): 2},
        "fp8": {("mine", "wrong"): 6, ("mine", "unscored"): 3, ("lm_eval:tiny_qa", "wrong"): 2},
    }
    stops = {tuple(body.get("stop", ())) for body in engines.servers["bf16"].requests if body["max_tokens"] == 8}
    assert stops == {("\n",)}
    overall = judge_run(load_run(out)).of("fp8", "overall")[0]
    assert (overall.asked, overall.unscored, overall.difference.n, overall.flips.lost) == (8, 3, 8, 8)
    assert overall.identical == 0.0
    assert build_report(out).is_file()


async def test_what_is_not_scored_is_no_evidence_of_anything(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(tasks=[rows_file(tmp_path, unscored(12))])
    engines = ScriptedEngines(Answers(plan))
    out = tmp_path / "run"
    await run(plan, out, engines)
    judgement = judge_run(load_run(out))
    for comparison in judgement.comparisons:
        assert (comparison.asked, comparison.unscored, comparison.difference.n) == (0, 12, 0)
        assert comparison.identical == 1.0
        assert comparison.verdict is not None
        assert comparison.verdict.word == "undecided"
        assert (
            comparison.verdict.reason
            == "not scored: the 12 questions have no right answer; 100% of the outputs are the same"
        )
    (headline,) = headlines(judgement)
    assert (headline.word, headline.reason.startswith("not scored")) == ("undecided", True)
    shut = gate(out, overrides={"undecided": "allow"})
    assert (shut.state, shut.exit_code) == ("undecided", 5)
    assert summary(out)["rows"][0]["score"] is None
    assert summary_table(out)
    assert build_report(out).is_file()


async def test_unscored_lengths_keep_no_verdict_open(plan_of: Planner, tmp_path: Path) -> None:
    alone = plan_of(tasks=[rows_file(tmp_path, scored(40), "short")])
    both = plan_of(tasks=[rows_file(tmp_path, [*scored(40), *unscored(5, start=PAGE)], "short")])
    words = {}
    for name, plan in (("alone", alone), ("both", both)):
        await run(plan, tmp_path / name, ScriptedEngines(Answers(plan)))
        words[name] = headlines(judge_run(load_run(tmp_path / name)))[0]
    assert words["alone"] == words["both"]
    assert gate(tmp_path / "alone").state == gate(tmp_path / "both").state
    rows = judge_run(load_run(tmp_path / "both")).of("fp8", "length")
    assert [(row.scope.context_length, row.asked, row.unscored) for row in rows] == [(1024, 40, 0), (2048, 0, 5)]


async def test_a_changed_file_cannot_be_resumed(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(tasks=[rows_file(tmp_path, scored(3))])
    await run(plan, tmp_path / "run", ScriptedEngines(Answers(plan)))
    changed = plan_of(tasks=[rows_file(tmp_path, [*scored(2), {**scored(3)[2], "answer": "7"}])])
    with pytest.raises(ResumeError, match="task/mine changed since this run was made"):
        await run(changed, tmp_path / "run", ScriptedEngines(Answers(changed)), resume=True)


def test_rows_with_tools_need_an_engine_that_parses_calls(plan_of: Planner, tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "look_up"}}
    rows = [*scored(1), {"prompt": "Look it up.", "tools": [tool], "scorer": "tool_call", "answer": []}]
    says = r"mine\.jsonl line 2: tools are asked .* the engine of bf16 is started without enable-auto-tool-choice"
    with pytest.raises(PlanError, match=says):
        plan_of(tasks=[rows_file(tmp_path, rows)])
    with pytest.raises(PlanError, match=r"mine\.jsonl line 2: .* prompt_style is completion"):
        plan_of(tasks=[rows_file(tmp_path, rows)], prompt_style="completion")


def test_the_engine_has_room_for_the_smoke_questions(plan_of: Planner, tmp_path: Path) -> None:
    short = [{"prompt": "2 + 2?", "answer": 4, "max_output_tokens": 1}]
    assert plan_of(tasks=[rows_file(tmp_path, short)]).max_model_len == 512
    plan = plan_of(tasks=[rows_file(tmp_path, [{**short[0], "prompt": PAGE}])])
    assert plan.max_model_len == len(plan.samples[0].prompt) + 16 + 8


async def test_a_question_that_names_its_answer_is_found_before_anything_is_asked(
    plan_of: Planner, tmp_path: Path
) -> None:
    rows = [{"prompt": f"Ticket {i}. Is it allowed, yes or no?", "answer": "no"} for i in range(4)]
    plan = plan_of(tasks=[rows_file(tmp_path, rows)])
    assert any("question names their answer: 4" in note for note in describe(plan)["notes"])
    engines = ScriptedEngines(Oracle(plan))
    engines.handlers["fp8"] = always(Reply("yes or no?"))
    manifest = await run(plan, tmp_path / "run", engines)
    assert "question_names_answer" in {finding.code for finding in manifest.variants["bf16"].findings}
    records = list(RunDirectory(tmp_path / "run").records("fp8"))
    assert {(record.outcome, record.score) for record in records} == {("wrong", 0.0)}
