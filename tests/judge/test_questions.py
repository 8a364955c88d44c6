"""Two runs are compared only if they asked the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.config.judge import Policy
from kveval.errors import IncomparableError
from kveval.judge.blessed.bless import bless
from kveval.judge.questions import differing_questions, questions_of
from kveval.judge.run_data import load_run
from kveval.report.documents.diff import compare


def differing(tmp_path: Path, **changes: Any) -> str | None:
    """Compares the questions of a run with those of a run that `changes` changed."""
    first = make_run(tmp_path / "a", answers={"bf16": scored(1)})
    second = make_run(tmp_path / "b", answers={"bf16": scored(1)}, **changes)
    return differing_questions(questions_of(load_run(first)), questions_of(load_run(second)))


def test_equal_runs_may_be_compared(tmp_path: Path) -> None:
    assert differing(tmp_path) is None


def test_other_samples_are_counted(tmp_path: Path) -> None:
    found = differing(tmp_path, samples=make_samples(haystacks=29))
    assert found is not None
    assert found.startswith("20 questions were asked in only one of them")


def test_another_task_is_named(tmp_path: Path) -> None:
    found = differing(tmp_path, samples=make_samples(tasks={"qa": "qa"}))
    assert found == "only one of them asked task 'niah_multikey'"


def test_other_prompts_of_the_same_samples_are_noticed(tmp_path: Path) -> None:
    first, *rest = make_samples()
    changed = [first.model_copy(update={"prompt_sha256": "0" * 64}), *rest]
    assert differing(tmp_path, samples=changed) == "the prompts of the same questions differ"


def test_another_sampling_setting_is_named(tmp_path: Path) -> None:
    found = differing(tmp_path, manifest={"sampling": {"temperature": 1.0}})
    assert found == "sampling setting 'temperature' differs: 0.0 and 1.0"


@pytest.mark.parametrize("changed", ["task/mine", "task/mine/files"])
def test_runs_scored_by_different_scorers_are_not_compared(tmp_path: Path, changed: str) -> None:
    samples = make_samples(tasks={"mine": "own"}, haystacks=2, questions=2)
    answers = {"bf16": scored(0.9), "fp8": scored(0.9)}
    inputs = {"task/mine": "0", "task/mine/files": "1", "task/other": "2"}
    for name, its in (("a", inputs), ("b", inputs | {"task/other": "3"}), ("c", inputs | {changed: "4"})):
        make_run(tmp_path / name, samples=samples, answers=answers, manifest={"inputs": its})
    blessed = tmp_path / "c.json"
    bless(load_run(tmp_path / "c"), Policy(), blessed)
    assert compare(str(tmp_path / "a"), str(tmp_path / "b")).pairs
    assert compare(f"{tmp_path / 'c'}:bf16", f"{tmp_path / 'c'}:fp8").pairs
    for other in (tmp_path / "c", f"{tmp_path / 'c'}:fp8", blessed):
        with pytest.raises(IncomparableError, match=rf"a task or its scorer differs \({changed}\)"):
            compare(str(tmp_path / "a"), str(other))
