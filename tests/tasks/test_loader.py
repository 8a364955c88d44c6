from __future__ import annotations

from pathlib import Path

import pytest

from kveval.errors import ConfigError, InfrastructureError
from kveval.resources import tasks_directory
from kveval.tasks.assembly.haystack import build_samples
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.loader import check_scorer, load_tasks, task_from_yaml
from kveval.tasks.task import Cell
from kveval.tasks.task_files import list_tasks

OWN_TASK = """
include: {shipped}/needle/_needle_yaml
task: {name}
custom_dataset: !function kveval.tasks.families.needle.builder.niah_multikey
metadata:
  version: 7
  description: my own
  keys: {keys}
"""


def own_folder(tmp_path: Path, text: str = OWN_TASK, name: str = "kveval_mine", keys: str = "12") -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "mine.yaml").write_text(text.format(shipped=tasks_directory(), name=name, keys=keys))
    return tmp_path


def test_tasks_load_by_either_name():
    loaded = load_tasks(["niah_single", "kveval_niah_single"])
    assert list(loaded) == ["niah_single", "kveval_niah_single"]
    assert {task.name for task in loaded.values()} == {"niah_single"}


def test_a_loaded_task_is_what_its_yaml_declares():
    task = load_tasks(["niah_multikey"])["niah_multikey"]
    assert (task.family, task.version, task.max_output_tokens) == ("needle", "2", 48)
    assert task.stop == ("\n", ". ")
    assert task.metadata["keys"] == task.builder.keys == 16
    assert set(task.metadata) == {"version", "description", "keys"}
    doc = {"context": "CONTEXT", "question": "QUESTION?", "answer_lead": "LEAD"}
    assert task.render(doc).endswith("\n\nCONTEXT\n\nQUESTION?")
    assert task.answer_prefix(doc) == "\nAnswer: LEAD"


def test_an_unknown_task_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match="unknown task 'niah_singel'; did you mean 'niah_single'"):
        load_tasks(["niah_singel"])


def test_a_user_adds_a_folder_of_tasks(tmp_path):
    folder = own_folder(tmp_path)
    assert "mine" in [info.name for info in list_tasks(folder)]
    assert load_tasks(["mine"], folder)["mine"].builder.keys == 12


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("task: [", "cannot be read"),
        ("task: kveval_mine\n", "has no metadata.version"),
        ("include: missing_yaml\ntask: kveval_mine\n", "missing_yaml cannot be read"),
        (OWN_TASK.replace("niah_multikey", "no_such_task"), "cannot be loaded: AttributeError"),
        (OWN_TASK + "\ndoc_to_text: '{{{{context'\n", "cannot be loaded: TemplateSyntaxError"),
        (OWN_TASK + "\ndoc_to_text: '{{{{no_such_field}}}}'\n", "cannot be loaded: UndefinedError"),
        (OWN_TASK + "\ngeneration_kwargs: {{until: []}}\n", "max_gen_toks=None"),
        (OWN_TASK + "\ngeneration_kwargs: {{max_gen_toks: 8, until: 1}}\n", "generation_kwargs.until=1; use text"),
        (OWN_TASK + "\ngeneration_kwargs: {{max_gen_toks: 8, until: [a, 1]}}\n", "until=['a', 1]; use text"),
        (OWN_TASK + "\ngeneration_kwargs: {{max_gen_toks: 8, until: {{a: b}}}}\n", "until={'a': 'b'}; use text"),
        (OWN_TASK + "\ngeneration_kwargs: [1]\n", "mine.yaml"),
        (OWN_TASK + "\ngen_prefix: '{{{{no_such_field}}}}'\n", "cannot be loaded: UndefinedError"),
        (OWN_TASK + "\nprocess_results: null\n", "process_results is missing"),
        (OWN_TASK.replace("keys: {keys}", "keys: many"), "keys='many'; use a whole number from 1"),
    ],
)
def test_a_broken_task_file_is_named_in_one_line(tmp_path, text, says):
    folder = own_folder(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        load_tasks(["mine"], folder)
    assert says in str(refused.value)
    assert "mine.yaml" in str(refused.value) or "missing_yaml" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["model: m\ntasks: [mine]\n", "group: all\ntask: [mine]\n", "- a\n", ""])
def test_yaml_files_that_declare_no_task_are_left_out(tmp_path, text):
    folder = own_folder(tmp_path)
    (folder / "nightly.yaml").write_text(text)
    assert len(list_tasks(folder)) == len(list_tasks()) + 1
    with pytest.raises(ConfigError, match=r"nightly\.yaml (has no 'task' name|is not a mapping)"):
        task_from_yaml(folder / "nightly.yaml")


def test_one_file_can_be_loaded(tmp_path):
    path = own_folder(tmp_path) / "mine" / "mine.yaml"
    assert task_from_yaml(path, {"keys": 3}).builder.keys == 3


def test_configuration_errors_are_not_infrastructure():
    assert not issubclass(ConfigError, InfrastructureError)


SCORER = "def score(doc, results):\n    text = results[0]\n    return {body}\n"


def own_scorer(tmp_path: Path, body: str) -> Path:
    folder = own_folder(tmp_path, OWN_TASK + "process_results: !function own_scorer.score\n")
    (folder / "mine" / "own_scorer.py").write_text(SCORER.format(body=body))
    return folder


def try_own_scorer(folder: Path) -> None:
    task = load_tasks(["mine"], folder)["mine"]
    samples = build_samples(task, Cell(task.name, 1024, 2, 2, 0, "generated"), PromptFormat.stand_in())
    check_scorer(task, samples[0], samples[1])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("{'score': 1 / len(text)}", "fails: ZeroDivisionError: division by zero (tried on an empty output)"),
        ("{'score': float('nan')}", "returns score=nan; use a number from 0 to 1 (tried on the references)"),
        (
            "{'score': 1.5 * ('not stated' in text)}",
            "returns score=1.5; use a number from 0 to 1 (tried on the ou",
        ),
        ("{'score': -1 * (text.isdigit() and text not in doc['answers'])}", "(tried on another sample's references)"),
        ("{'score': None}", "returns score=None"),
        ("{'score': '1'}", "returns score='1'"),
        ("{'score': [1.0]}", "returns score=[1.0]"),
        ("{'score': 1.0, 'length': len(text)}", "returns length="),
        ("{'accuracy': 1.0}", "returns {'accuracy': 1.0}; use a dict with 'score'"),
        ("1.0", "returns 1.0; use a dict with 'score'"),
    ],
)
def test_a_scorer_is_tried_on_a_few_texts(tmp_path, body, says):
    with pytest.raises(ConfigError) as refused:
        try_own_scorer(own_scorer(tmp_path, body))
    assert says in str(refused.value)
    assert "mine.yaml: process_results" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_scorer_may_return_any_kind_of_number(tmp_path):
    try_own_scorer(own_scorer(tmp_path, "{'score': text in doc['answers'], 'half': __import__('numpy').float32(0.5)}"))
