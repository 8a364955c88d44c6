"""What would decide a candidate is said once, as a range, with the command that adds it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.judgement import judge
from support.make_run import make_run, make_samples, scored

from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.settling import Settling, settling
from kveval.judge.statistics.power import MoreSamples


def test_the_sentence_gives_a_range_and_the_command() -> None:
    found = Settling(1200, 5400, 120, 540, 400, "kveval sweep --resume --out runs/a --samples 400")
    assert str(found) == (
        "between 1,200 and 5,400 more questions (120 to 540 more contexts) would decide it: "
        "kveval sweep --resume --out runs/a --samples 400"
    )


def test_a_range_without_a_useful_end_says_at_least() -> None:
    assert str(Settling(1200, None, 120, None, 400, None)) == (
        "at least 1,200 more questions (120 more contexts) would decide it"
    )


def test_a_range_from_nearly_nothing_says_up_to() -> None:
    assert str(Settling(1, 90, 1, 9, 39, None)) == "up to 90 more questions (9 more contexts) would decide it"


def test_the_row_that_needs_most_decides_and_the_command_counts_samples_of_each_cell(tmp_path: Path) -> None:
    samples = make_samples(tasks={"a": "needle", "b": "qa"}, haystacks=12, questions=5)
    path = make_run(tmp_path / "a night", samples=samples, answers={"bf16": scored(0.8), "fp8": scored(0.8)})
    judgement = judge(path)
    (headline,) = headlines(judgement)
    found = headline.settling
    assert found is not None
    # Nothing differs: 189 contexts are needed at each length, which has two cells.
    assert found.samples_per_cell == pytest.approx(5 * 189 / 2, abs=5)
    assert found.command == f"kveval sweep --resume --out '{path}' --samples {found.samples_per_cell}"
    assert headline.sentence.count("more questions") == 1
    assert "more questions" not in headline.reason


def test_what_is_decided_needs_nothing(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": scored(0.9)})
    judgement = judge(path)
    assert settling(judgement.comparisons, path) is None
    assert headlines(judgement)[0].settling is None


def test_a_loss_at_the_margin_may_take_any_number_and_the_command_asks_for_five_times_the_run(tmp_path: Path) -> None:
    judgement = judge(make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": scored(0.9)}))
    (row,) = judgement.of("fp8", "overall")
    assert row.verdict is not None
    verdict = replace(row.verdict, word="undecided", more_samples=MoreSamples(low=7, likely=90_000, high=None))
    found = settling([replace(row, verdict=verdict)], tmp_path / "run")
    assert found is not None
    assert found.samples_per_cell * row.cells == 5 * row.difference.n
