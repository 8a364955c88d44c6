from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from kveval.errors import ConfigError, DataError
from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.external.fixed_prompts import FixedPromptTask, fixed_prompt_samples
from kveval.tasks.external.lm_eval import load_lm_eval_task

ROWS = [
    {"question": "What colour is the sky?", "answer": "blue"},
    {"question": "What is two plus two?", "answer": "4"},
    {"question": "What is the capital of France?", "answer": "Paris"},
]
TASK = {
    "task": "tiny_qa",
    "dataset_path": "json",
    "output_type": "generate_until",
    "test_split": "test",
    "doc_to_text": "Question: {{question}}\nAnswer:",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["\n", "Question:"], "max_gen_toks": 16, "do_sample": False},
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, "ignore_case": True}],
    "metadata": {"version": 3},
}


@pytest.fixture(autouse=True)
def _no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.json"
    path.write_text(json.dumps(ROWS))
    return path


def tiny_qa(folder: Path, rows: Path, samples: int | None = None, **changes: Any) -> FixedPromptTask:
    declared = {**TASK, "dataset_kwargs": {"data_files": {"test": str(rows)}}, **changes}
    path = folder / "tiny_qa.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in declared.items() if value is not None}))
    return load_lm_eval_task(f"lm_eval:{path}", samples)


def test_a_task_of_lm_evals_is_asked_as_lm_eval_asks_it(tmp_path: Path, rows: Path) -> None:
    given = tiny_qa(tmp_path, rows)
    task = given.task
    assert (task.name, task.family, task.version, task.max_output_tokens) == ("lm_eval:tiny_qa", "lm_eval", "3", 16)
    prompts = given.prompts("completion")
    assert [prompt.content for prompt in prompts] == [f"Question: {row['question']}\nAnswer:" for row in ROWS]
    assert [prompt.answers for prompt in prompts] == [("blue",), ("4",), ("Paris",)]
    assert prompts[0].stop == ("\n", "Question:")
    chat = given.prompts("chat")[0].content
    assert chat == [{"role": "user", "content": "Question: What colour is the sky?\nAnswer:"}]


def test_its_answers_are_scored_by_its_own_metric(tmp_path: Path, rows: Path) -> None:
    task = tiny_qa(tmp_path, rows).task
    assert task.score({"document": 2}, "paris") == {"score": 1.0, "exact_match,none": 1.0}
    assert task.score({"document": 2}, "London")["score"] == 0.0
    assert task.score({"document": 0}, "Paris")["score"] == 0.0


def test_the_first_filter_decides_and_the_others_are_kept(tmp_path: Path, rows: Path) -> None:
    strict = {
        "name": "strict",
        "filter": [{"function": "regex", "regex_pattern": r"#### (\w+)"}, {"function": "take_first"}],
    }
    loose = {"name": "loose", "filter": [{"function": "regex", "regex_pattern": r"(\w+)$"}, {"function": "take_first"}]}
    task = tiny_qa(tmp_path, rows, filter_list=[strict, loose]).task
    assert "exact_match (strict) decides" in task.description
    assert task.score({"document": 1}, "so #### 4") == {
        "score": 1.0, "exact_match,strict": 1.0, "exact_match,loose": 1.0,
    }  # fmt: skip
    assert task.score({"document": 1}, "it is 4") == {
        "score": 0.0, "exact_match,strict": 0.0, "exact_match,loose": 1.0,
    }  # fmt: skip


def test_few_shot_examples_are_the_same_every_time_and_for_every_number_of_documents(
    tmp_path: Path, rows: Path
) -> None:
    shots = {"num_fewshot": 1, "fewshot_split": "test"}
    given = tiny_qa(tmp_path, rows, **shots)
    first = [prompt.content for prompt in given.prompts("completion")]
    assert first == [prompt.content for prompt in given.prompts("completion")]
    assert first[:2] == [prompt.content for prompt in tiny_qa(tmp_path, rows, 2, **shots).prompts("completion")]
    for text, row in zip(first, ROWS, strict=True):
        assert text.count("Question:") == 2
        assert text.endswith(f"Question: {row['question']}\nAnswer:")


def test_samples_are_like_those_of_any_other_task(tmp_path: Path, rows: Path) -> None:
    given = tiny_qa(tmp_path, rows)
    samples = fixed_prompt_samples(given, PromptFormat.stand_in(), ChatTemplate(tmp_path, {}))
    assert len({sample.sample_id for sample in samples}) == len({sample.haystack_id for sample in samples}) == 3
    assert samples[2].doc["answers"] == ["Paris"]
    assert samples[2].stop == ("\n", "Question:")
    assert "\n" not in samples[2].doc["source"]
    again = fixed_prompt_samples(tiny_qa(tmp_path, rows), PromptFormat.stand_in(), ChatTemplate(tmp_path, {}))
    assert [sample.sample_id for sample in again] == [sample.sample_id for sample in samples]


def test_equal_documents_are_different_samples(tmp_path: Path) -> None:
    twice = tmp_path / "twice.json"
    twice.write_text(json.dumps([ROWS[0], ROWS[0]]))
    samples = fixed_prompt_samples(tiny_qa(tmp_path, twice), PromptFormat.stand_in(), ChatTemplate(tmp_path, {}))
    assert len({sample.sample_id for sample in samples}) == 2


def test_a_scorer_that_fails_on_an_output_says_so(tmp_path: Path, rows: Path) -> None:
    (tmp_path / "brittle.py").write_text(
        "def score(doc, results):\n    return {'acc': 2 / len(results[0]), 'words': len(results[0])}\n"
    )
    path = tmp_path / "brittle.yaml"
    declared = {**TASK, "dataset_kwargs": {"data_files": {"test": str(rows)}}, "metric_list": [{"metric": "acc"}]}
    path.write_text(yaml.safe_dump(declared) + "process_results: !function brittle.score\n")
    task = load_lm_eval_task(f"lm_eval:{path}").task
    assert task.score({"document": 0}, "four") == {"score": 0.5, "acc,none": 0.5, "words,none": 4.0}
    with pytest.raises(ConfigError, match=r"the scorer of lm_eval:tiny_qa fails: ZeroDivisionError: division by zero"):
        task.score({"document": 0}, "")
    with pytest.raises(ConfigError, match=r"the scorer of lm_eval:tiny_qa returns .*'acc': 2.0.*; use: a number"):
        task.score({"document": 0}, "a")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"output_type": "multiple_choice", "doc_to_choice": ["a", "b"], "doc_to_target": 0},
            "output_type 'multiple_choice'",
        ),
        (
            {"output_type": "loglikelihood", "metric_list": [{"metric": "acc"}]},
            "output_type 'loglikelihood'; use: gen",
        ),
        ({"repeats": 8}, "asks every question 8 times; use: repeats: 1"),
        ({"unsafe_code": True}, "runs what the model writes"),
        ({"metric_list": [{"metric": "bleu"}]}, "has the metrics bleu, none of which is a number from 0 to 1"),
        (
            {"metric_list": [{"metric": "my_own", "aggregation": "mean", "higher_is_better": True}]},
            "has the metric 'my_own', which lm-eval does not know",
        ),
        ({"task": ["gsm8k", "mmlu"]}, "is a group of tasks; use: one of the tasks in it"),
        ({"group": "mine"}, "is a group of tasks"),
        ({"test_split": "nothing"}, "cannot be loaded: "),
        ({"doc_to_text": "{{"}, "cannot be loaded: "),
    ],
)
def test_a_task_that_cannot_be_asked_is_refused_in_one_line(
    tmp_path: Path, rows: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        tiny_qa(tmp_path, rows, **changes)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_more_documents_than_there_are_is_refused(tmp_path: Path, rows: Path) -> None:
    with pytest.raises(ConfigError, match=r"samples=4 of lm_eval:.*; use: up to 3, the documents it has"):
        tiny_qa(tmp_path, rows, 4)
    assert len(load_lm_eval_task(f"lm_eval:{tmp_path / 'tiny_qa.yaml'}", None, 100).prompts("chat")) == 3
    assert len(load_lm_eval_task(f"lm_eval:{tmp_path / 'tiny_qa.yaml'}", None, 2).prompts("chat")) == 2


def test_a_task_without_documents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(ConfigError, match=r"tiny_qa\.yaml has no documents; use: a task whose data has rows"):
        tiny_qa(tmp_path, tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("1 / 0", "fails: ZeroDivisionError: division by zero"),
        ("3", "fails: TypeError: process_results returns 3; use: a dict of metrics"),
    ],
)
def test_a_scorer_that_fails_on_the_first_document_is_refused(tmp_path: Path, rows: Path, body: str, says: str) -> None:
    (tmp_path / "failing.py").write_text(f"def score(doc, results):\n    return {body}\n")
    path = tmp_path / "failing.yaml"
    declared = {**TASK, "dataset_kwargs": {"data_files": {"test": str(rows)}}, "metric_list": [{"metric": "acc"}]}
    path.write_text(yaml.safe_dump(declared) + "process_results: !function failing.score\n")
    with pytest.raises(ConfigError) as refused:
        load_lm_eval_task(f"lm_eval:{path}")
    assert f"failing.yaml {says}" in str(refused.value)


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.yaml: no such file; use: a task's YAML file, or its name"):
        load_lm_eval_task(f"lm_eval:{tmp_path / 'nothing.yaml'}")


def test_a_hub_that_cannot_be_reached_is_named_soon(tmp_path: Path, rows: Path) -> None:
    started = time.monotonic()
    with pytest.raises(DataError) as refused:
        tiny_qa(tmp_path, rows, dataset_path="openai/gsm8k", dataset_kwargs=None)
    assert time.monotonic() - started < 20
    assert "its data has to be downloaded, and http://127.0.0.1:9 cannot be reached" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 3


@pytest.mark.timeout(180)
def test_lm_evals_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from lm_eval import tasks

    # Indexing takes seconds: once for all three.
    manager = tasks.TaskManager()
    monkeypatch.setattr(tasks, "TaskManager", lambda **_: manager)
    with pytest.raises(ConfigError, match=r"lm-eval has no task 'gsm8'; did you mean 'gsm8k'"):
        load_lm_eval_task("lm_eval:gsm8")
    with pytest.raises(ConfigError, match=r"lm_eval:mmlu is a group of tasks"):
        load_lm_eval_task("lm_eval:mmlu")
    with pytest.raises(DataError, match=r"^lm_eval:gsm8k: its data has to be downloaded"):
        load_lm_eval_task("lm_eval:gsm8k")
