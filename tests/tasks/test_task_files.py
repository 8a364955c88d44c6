from __future__ import annotations

import subprocess
import sys

import pytest

from kveval.errors import ConfigError
from kveval.tasks.task_files import hash_task_files, list_tasks, read_task_file


def test_every_shipped_task_says_what_it_is():
    names = [info.name for info in list_tasks()]
    assert {"niah_single", "niah_multikey", "niah_multivalue", "niah_multiquery", "niah_absent"} <= set(names)
    for info in list_tasks():
        assert info.path.stem == info.name
        assert info.path.parent.name == info.family
        assert info.description


def test_listing_imports_neither_lm_eval_nor_transformers():
    code = (
        "import sys; from kveval.tasks.task_files import list_tasks; list_tasks(); "
        "sys.exit(bool({'lm_eval', 'transformers', 'torch', 'datasets'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def mine(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    return folder / "mine.yaml"


def test_two_tasks_of_one_name_are_refused(mine):
    mine.write_text("task: kveval_niah_single\nmetadata: {version: 1}\n")
    with pytest.raises(ConfigError, match="'niah_single' is declared by"):
        list_tasks(mine.parent)


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        list_tasks(tmp_path / "nowhere")


def test_the_hash_changes_with_any_file_beside_the_task(mine):
    mine.write_text("task: kveval_mine\nmetadata: {version: 1}\n")
    before = hash_task_files(mine)
    (mine.parent / ".hidden").write_text("not counted")
    assert hash_task_files(mine) == before
    (mine.parent / "scorer.py").write_text("pass")
    assert hash_task_files(mine) != before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("include: mine.yaml\n", "include: mine.yaml includes this file again"),
        ("include: other.yaml\n", "include: mine.yaml includes this file again"),
        ("include: [{a: b}]\n", r"include: {'a': 'b'} is not a file; use: the name of a YAML file"),
        ("include: list.yaml\n", "list.yaml is not a mapping of keys to values"),
        ("include: none.yaml\n", "none.yaml cannot be read: No such file"),
        ("task: 2024-13-45\n", r"cannot be read \(line 1\): not YAML: '2024-13-45' is a date"),
    ],
)
def test_a_task_file_that_cannot_be_read_is_named(tmp_path, text, message):
    (tmp_path / "mine.yaml").write_text(text)
    (tmp_path / "other.yaml").write_text("include: mine.yaml\n")
    (tmp_path / "list.yaml").write_text("[1]\n")
    with pytest.raises(ConfigError, match=message):
        read_task_file(tmp_path / "mine.yaml")
