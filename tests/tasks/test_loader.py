from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kveval.errors import ConfigError, InfrastructureError
from kveval.resources import tasks_directory
from kveval.tasks.loader import list_tasks, load_tasks, task_from_yaml

OWN_TASK = """
include: {shipped}/needle/_needle_yaml
task: {name}
custom_dataset: !function kveval.tasks.needle.niah_multikey
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


def test_every_shipped_task_says_what_it_is():
    names = [info.name for info in list_tasks()]
    assert {"niah_single", "niah_multikey", "niah_multivalue", "niah_multiquery", "niah_absent"} <= set(names)
    for info in list_tasks():
        assert info.path.stem == info.name
        assert info.path.parent.name == info.family
        assert info.description


def test_listing_imports_neither_lm_eval_nor_transformers():
    code = (
        "import sys; from kveval.tasks.loader import list_tasks; list_tasks(); "
        "sys.exit(bool({'lm_eval', 'transformers', 'torch', 'datasets'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_tasks_load_by_either_name():
    loaded = load_tasks(["niah_single", "kveval_niah_single"])
    assert list(loaded) == ["niah_single", "kveval_niah_single"]
    assert {task.name for task in loaded.values()} == {"niah_single"}


def test_a_loaded_task_is_what_its_yaml_declares():
    task = load_tasks(["niah_multikey"])["niah_multikey"]
    assert (task.family, task.version, task.max_output_tokens) == ("needle", "1", 48)
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


def test_two_tasks_of_one_name_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="'niah_single' is declared by"):
        list_tasks(own_folder(tmp_path, name="kveval_niah_single"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("task: [", "cannot be read"),
        ("- a\n- b\n", "is not a mapping"),
        ("doc_to_text: hello\n", "has no 'task' name"),
        ("task: kveval_mine\n", "has no metadata.version"),
        ("include: missing_yaml\ntask: kveval_mine\n", "missing_yaml cannot be read"),
        (OWN_TASK.replace("niah_multikey", "no_such_task"), "cannot be loaded: AttributeError"),
        (OWN_TASK + "\ndoc_to_text: '{{{{context'\n", "cannot be loaded: TemplateSyntaxError"),
        (OWN_TASK + "\ndoc_to_text: '{{{{no_such_field}}}}'\n", "cannot be loaded: UndefinedError"),
        (OWN_TASK + "\ngeneration_kwargs: {{until: []}}\n", "max_gen_toks=None"),
        (OWN_TASK.replace("keys: {keys}", "keys: many"), "keys='many'; allowed: whole numbers from 1"),
    ],
)
def test_a_broken_task_file_is_named_in_one_line(tmp_path, text, says):
    folder = own_folder(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        load_tasks(["mine"], folder)
    assert says in str(refused.value)
    assert "mine.yaml" in str(refused.value) or "missing_yaml" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        list_tasks(tmp_path / "nowhere")


def test_one_file_can_be_loaded(tmp_path):
    path = own_folder(tmp_path) / "mine" / "mine.yaml"
    assert task_from_yaml(path, {"keys": 3}).builder.keys == 3


def test_configuration_errors_are_not_infrastructure():
    assert not issubclass(ConfigError, InfrastructureError)
