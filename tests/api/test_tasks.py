"""Listing, building and scoring tasks from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import kveval
from kveval.errors import ConfigError, UsageError


def test_equal_arguments_build_equal_prompts() -> None:
    first, again, other = (
        kveval.example_prompts("niah_absent", context_length=512, haystack="generated", seed=seed) for seed in (3, 3, 4)
    )
    assert [prompt.sample.sample_id for prompt in first] == [prompt.sample.sample_id for prompt in again]
    assert first[0].sample.sample_id != other[0].sample.sample_id


def test_an_unknown_haystack_style_is_named_with_the_right_one() -> None:
    with pytest.raises(UsageError, match="'essay' is not a haystack style; did you mean 'essays'"):
        kveval.example_prompts("niah_single", haystack="essay")


def test_a_right_and_a_wrong_answer_are_told_apart() -> None:
    task = kveval.load_task("niah_single")
    (prompt,) = kveval.example_prompts(task, context_length=512, count=1, haystack="generated")
    doc = prompt.sample.doc
    right, wrong = (kveval.score_answer(task, doc, text) for text in (doc["answers"][0], "somewhere else"))
    assert (right.outcome, right.metrics["score"]) == ("correct", 1.0)
    assert (wrong.outcome, wrong.metrics["score"]) == ("wrong", 0.0)


def test_a_task_of_your_own_folder(own_tasks: Path) -> None:
    assert "mine" in {task.name for task in kveval.list_tasks(own_tasks)}
    assert kveval.example_prompts("mine", context_length=512, haystack="generated", include_path=own_tasks)
    with pytest.raises(ConfigError, match="unknown task 'mine'"):
        kveval.load_task("mine")
