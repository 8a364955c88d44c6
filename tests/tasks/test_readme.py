from __future__ import annotations

import re

import pytest
from support import ROOT

from kveval.resources import tasks_directory
from kveval.tasks.assembly.haystack import build_samples
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.loader import load_tasks
from kveval.tasks.task import Cell
from kveval.tasks.task_files import list_tasks

README = (ROOT / "tasks" / "README.md").read_text(encoding="utf-8")
STAND_IN = PromptFormat.stand_in()


@pytest.fixture
def included(tmp_path):
    """The folder that "Adding a task" makes."""
    (tmp_path / "tasks").symlink_to(tasks_directory())
    for code in re.findall(r"^```\w+\n(# my_tasks/.*?)^```$", README, re.MULTILINE | re.DOTALL):
        path = tmp_path / code.splitlines()[0].removeprefix("# ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    return tmp_path / "my_tasks"


def test_the_task_that_is_added_as_an_example_is_one(included):
    task = load_tasks(["crate_bins"], included)["crate_bins"]
    assert (task.family, task.version) == ("needle", "1")
    samples = build_samples(task, Cell("crate_bins", 2048, 20, 10, 0, "generated"), STAND_IN)
    for sample, other in zip(samples, samples[1:] + samples[:1], strict=True):
        [answer] = sample.doc["answers"]
        assert STAND_IN.decode(sample.prompt.token_ids()).count(answer) == 1
        assert task.score(sample.doc, answer)["score"] == 1
        assert task.score(sample.doc, other.doc["answers"][0])["score"] == 0
        assert task.score(sample.doc, "not stated")["score"] == 0


def test_the_table_has_every_task():
    rows = re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE)
    assert {info.name for info in list_tasks()} <= set(rows)
