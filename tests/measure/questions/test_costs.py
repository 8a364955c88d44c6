"""What a prefill costs, counted in questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.measure.questions.costs import assumed_prefill, measured_prefills
from kveval.run.directory import RunDirectory
from kveval.run.records import Record
from kveval.run.storage import to_json


def measured(folder: Path, *, asking_seconds: float, **first: Any) -> dict[int, float]:
    """Returns the costs of a run of 2 lengths with 6 haystacks of 5 questions: the first token takes 0.5 and 2 s."""
    variants = {"bf16": {"asking_seconds": asking_seconds}}
    rows = make_samples(haystacks=6, questions=5)
    path = make_run(folder, answers={"bf16": scored(0.9)}, samples=rows, variants=variants)
    run = RunDirectory(path)
    seen: set[str] = set()
    changed: list[Record] = []
    for number, one in enumerate(run.records("bf16")):
        is_first = one.haystack_id not in seen
        seen.add(one.haystack_id)
        waits = 10.0 * (number % 10 != 0)
        ttft = 1000 * (0.5 if one.context_length == 2048 else 2.0) + waits if is_first else 20.0
        times = {"ttft_ms": ttft, "sent_at": 1e9 + number, "cached_tokens": 0 if is_first else 100}
        changed.append(one.model_copy(update=times | (first if is_first else {})))
    run.records_path("bf16").write_text("".join(to_json(one) + "\n" for one in changed))
    return dict(measured_prefills(run, run.read_manifest()))


def test_a_prefill_is_the_fastest_first_token_and_questions_take_the_rest(tmp_path: Path) -> None:
    # 6 x 0.5 + 6 x 2 = 15 seconds of prefills, so 60 questions take 30.
    assert measured(tmp_path / "run", asking_seconds=45) == pytest.approx({2048: 1.0, 8192: 4.0})


def test_prefills_that_overlap_leave_some_time_to_the_questions(tmp_path: Path) -> None:
    assert measured(tmp_path / "run", asking_seconds=12) == pytest.approx({2048: 50.0, 8192: 200.0})


@pytest.mark.parametrize("first", [{"ttft_ms": None}, {"cached_tokens": 700}, {"reused_from": "another"}])
def test_what_was_not_measured_is_not_known(tmp_path: Path, first: dict[str, Any]) -> None:
    if "reused_from" in first:
        assert measured(tmp_path / "a", asking_seconds=0.0) == {}
        return
    assert measured(tmp_path / "run", asking_seconds=45, **first) == {}


def test_answers_of_another_run_say_nothing_of_this_one(tmp_path: Path) -> None:
    # Only the questions that were asked here share the time, and those that were taken are no prefills.
    assert measured(tmp_path / "run", asking_seconds=45, reused_from="another") == {}


def test_the_assumption_follows_length_answer_and_device() -> None:
    short, words = assumed_prefill(4096, 48, "cuda")
    assert short == pytest.approx(4096 / (64 + 8 * 48))
    assert "4,096 tokens" in words
    assert assumed_prefill(65536, 48, "cuda")[0] == pytest.approx(16 * short)
    assert assumed_prefill(4096, 480, None)[0] < short
    assert assumed_prefill(4096, 48, "cpu")[0] > short
