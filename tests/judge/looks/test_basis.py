"""A candidate that was judged while it was asked rests on its last look, at that look's level."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from support.judgement import judge, overall
from support.make_run import Answer, make_run, make_samples, scored

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.judgement import Judgement
from kveval.run.records import SampleRow

SHARES = (0.0625, 0.1875, 0.65)
PLANNED = [{"number": number, "error_share": share} for number, share in enumerate(SHARES, start=1)]


def samples() -> list[SampleRow]:
    """60 haystacks of 5 questions at two lengths: a quarter is counted from the first look, half from the second."""
    rows = []
    for row in make_samples(haystacks=60, questions=5):
        number = int(row.haystack_id.rsplit("-", 1)[1])
        rows.append(row.model_copy(update={"first_look": 1 if number < 15 else 2 if number < 30 else 3}))
    return rows


def looks(*covered: list[int]) -> list[dict[str, Any]]:
    """The looks that were taken, each with the lengths it covers."""
    return [
        {**planned, "at": "2026-01-02T03:04:05Z", "questions": 10, "context_lengths": lengths}
        for planned, lengths in zip(PLANNED, covered, strict=False)
    ]


def asked(upto: dict[int, int], answer: Answer | None = None) -> Answer:
    """Answers up to a look at each length. What comes later has no record."""
    inner = answer or scored(0.9)

    def given(row: SampleRow, rng: Any) -> Any:
        return inner(row, rng) if row.first_look <= upto[row.context_length] else None

    return given


def stops(upto: dict[int, int]) -> dict[str, Any]:
    return {str(length): {"look": look, "cause": "decided", "reason": "decided"} for length, look in upto.items()}


def run(folder: Path, taken: list[dict[str, Any]], upto: dict[int, int], **fields: Any) -> Judgement:
    answer = fields.pop("answer", None)
    path = make_run(
        folder / "run",
        samples=samples(),
        answers={"bf16": scored(0.9), "fp8": asked(upto, answer)},
        variants={"fp8": {"looks": taken, "stopped": stops({k: v for k, v in upto.items() if v < 3}), **fields}},
        manifest={"planned_looks": PLANNED},
    )
    return judge(path)


def row(judgement: Judgement, length: int) -> Comparison:
    return next(one for one in judgement.of("fp8", "length") if one.scope.context_length == length)


def test_every_length_rests_on_its_own_last_look_and_all_of_them_on_the_last_that_covers_both(tmp_path: Path) -> None:
    judgement = run(tmp_path, looks([2048, 8192], [8192], [8192]), {2048: 1, 8192: 3})

    short, long, both = row(judgement, 2048), row(judgement, 8192), overall(judgement, "fp8")
    assert (short.difference.clusters, long.difference.clusters, both.difference.clusters) == (15, 60, 30)
    levels = [1 - 0.05 * share for share in (SHARES[0], SHARES[2], SHARES[0])]
    assert [one.confidence for one in (short, long, both)] == pytest.approx(levels)
    assert (short.asked, long.asked, both.asked) == (75, 300, 150)


def test_a_variant_that_is_decided_early_is_complete_and_nothing_of_it_is_unanswered(tmp_path: Path) -> None:
    judgement = run(tmp_path, looks([2048, 8192]), {2048: 1, 8192: 1})

    assert judgement.problems == ()
    assert overall(judgement, "fp8").outcomes["candidate"]["missing"] == 0


def test_what_was_answered_after_the_last_look_does_not_count_before_the_next(tmp_path: Path) -> None:
    taken = looks([2048, 8192])
    upto = {2048: 2, 8192: 2}
    judgement = run(tmp_path, taken, upto, status="stopped", reason="interrupted", stopped={})

    assert overall(judgement, "fp8").asked == 150
    assert overall(judgement, "fp8").difference.clusters == 30


def test_without_a_look_an_unfinished_variant_is_tested_as_at_its_first_look_and_cannot_pass(tmp_path: Path) -> None:
    judgement = run(tmp_path, [], {2048: 3, 8192: 3}, status="stopped", reason="interrupted")

    found = overall(judgement, "fp8")
    assert found.confidence == pytest.approx(1 - 0.05 * SHARES[0])
    assert found.verdict is not None
    assert found.verdict.word == "undecided"
    assert "interrupted" in found.verdict.reason


def test_a_run_without_looks_is_judged_at_the_level_of_its_policy(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", samples=samples(), answers={"bf16": scored(0.9), "fp8": scored(0.9)})
    assert {one.confidence for one in judge(path).comparisons} == {0.95}


def losing_at(length: int, share: float) -> Answer:
    def answer(row: SampleRow, rng: Any) -> Any:
        given = scored(0.9)(row, rng)
        hit = int.from_bytes(hashlib.sha256(row.sample_id.encode()).digest()[:4], "big") / 2**32 < share
        return ("wrong", "lost") if row.context_length == length and hit else given

    return answer


def test_the_p_value_of_a_look_is_corrected_for_all_looks(tmp_path: Path) -> None:
    answer = losing_at(8192, 0.4)
    looked = run(tmp_path / "a", looks([2048, 8192]), {2048: 1, 8192: 1}, answer=answer)
    found = row(looked, 8192)
    assert found.verdict is not None
    assert found.difference.p_beyond is not None
    assert found.verdict.p_holm is not None
    # Three hypotheses are read together: overall and two lengths.
    assert found.verdict.p_holm == pytest.approx(3 * found.difference.p_beyond / SHARES[0])
    assert found.verdict.word == "fail"
    assert [one.verdict.word for one in looked.of("fp8", "length") if one.verdict] == ["undecided", "fail"]


def test_overall_passes_if_every_length_passes_although_it_rests_on_fewer_haystacks(tmp_path: Path) -> None:
    def noisy_at_first(row: SampleRow) -> float:
        number = int(row.haystack_id.rsplit("-", 1)[1])
        shift = 0.3 * (-1) ** number if row.context_length == 8192 and 0 < number < 15 else 0.0
        return 0.5 + shift

    upto = {2048: 1, 8192: 3}
    path = make_run(
        tmp_path / "run",
        samples=samples(),
        answers={"bf16": scored(0.9), "fp8": asked(upto)},
        expected={"bf16": lambda _: 0.5, "fp8": noisy_at_first},
        variants={"fp8": {"looks": looks([2048, 8192], [8192], [8192]), "stopped": stops({2048: 1})}},
        manifest={"planned_looks": PLANNED, "config": {"judge": {"margin": 0.05}}},
    )
    judgement = judge(path)
    both = overall(judgement, "fp8")

    words = [one.verdict.word for one in judgement.of("fp8", "overall", "length", "family") if one.verdict]
    assert words == ["pass"] * 4
    assert both.shown.difference.low is not None
    assert both.shown.difference.low < -0.05
    assert both.verdict is not None
    assert "every context length passes" in both.verdict.reason
