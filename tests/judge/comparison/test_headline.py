"""The answer for one candidate in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.judgement import judge, losing, overall, words
from support.make_run import make_run, scored

from kveval.judge.comparison.headline import headlines, held_to, in_words, listed
from kveval.run.records import Outcome, SampleRow


def test_a_run_without_samples_is_undecided(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", samples=[], answers={"bf16": scored(1), "fp8": scored(1)})
    judgement = judge(path)
    assert [h.word for h in headlines(judgement)] == ["undecided"]


@pytest.mark.parametrize(
    ("names", "text"), [(["8K"], "8K"), (["8K", "16K"], "8K and 16K"), (["8K", "16K", "32K"], "8K, 16K and 32K")]
)
def test_lists(names: list[str], text: str) -> None:
    assert listed(names) == text


def test_leaving_the_ceiling_fails(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(1.1), "int2": scored(-0.1)})
    judgement = judge(path)
    assert words(judgement, "int2") == {"fail"}
    assert headlines(judgement)[0].reason.startswith("fails overall: -100.0 points")


def test_what_passes_and_what_fails_stand_in_one_sentence(tmp_path: Path) -> None:
    def long_ones_lose(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        return losing(0.5 if row.context_length > 2048 else 0.0, scored(0.9))(row, rng)

    judgement = judge(make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": long_ones_lose}))
    (found,) = headlines(judgement)
    assert (found.variant, found.word) == ("fp8", "fail")
    assert found.reason.startswith("passes at 2,048 tokens; fails at 8,192 tokens: -")
    assert held_to(judgement.of("fp8", "length")) == 2048


def test_nothing_holds_if_the_shortest_length_does_not(tmp_path: Path) -> None:
    def short_ones_lose(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        return losing(0.5 if row.context_length == 2048 else 0.0, scored(0.9))(row, rng)

    judgement = judge(make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": short_ones_lose}))
    assert held_to(judgement.of("fp8", "length")) is None


def test_a_difference_in_words(tmp_path: Path) -> None:
    judgement = judge(make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": scored(0.9)}))
    assert in_words(overall(judgement, "fp8").shown, 0.95).startswith("+0.0 points, 95% interval -")
    assert in_words(overall(judgement, "fp8").shown, 0.95).endswith("600 questions about 600 contexts")
