"""Verdicts rest on expected scores where samples have them, and each kind of score is judged by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.judge_command import kveval
from support.judgement import judge, losing, overall, words
from support.make_run import make_run, make_samples, scored

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.run.records import SampleRow

FEW = make_samples(haystacks=8, questions=5, lengths=(2048,))
"""40 questions about 8 haystacks: far too few for greedy answers."""


def share(row: SampleRow, what: str = "level") -> float:
    """Returns a number of the sample's own in [0, 1], the same in every variant."""
    return int.from_bytes(hashlib.sha256(f"{what}/{row.sample_id}".encode()).digest()[:4], "big") / 2**32


def level(loss: float = 0.0, noise: float = 0.01, unit: str = "probability") -> Callable[[SampleRow], Any]:
    return lambda row: (0.3 + 0.4 * share(row) - loss + noise * (share(row, f"{loss}") - 0.5), unit)


def run_of(folder: Path, samples: list[SampleRow] = FEW, **expected: Any) -> Path:
    answers = {name: scored(0.5) for name in expected}
    return make_run(folder / "run", samples=samples, answers=answers, expected=expected)


def row(folder: Path, policy: Policy | None = None, **expected: Any) -> Comparison:
    return overall(judge_run(load_run(run_of(folder, **expected)), policy), list(expected)[-1])


def test_a_few_questions_show_a_loss_and_exclude_one(tmp_path: Path) -> None:
    path = run_of(tmp_path, bf16=level(noise=0), fp8=level(0.08), int8=level(0.0))
    judgement = judge(path)
    assert {h.variant: h.word for h in headlines(judgement)} == {"fp8": "fail", "int8": "pass"}
    fp8 = overall(judgement, "fp8")
    assert fp8.shown.kind == "probability"
    assert fp8.difference.delta == pytest.approx(-0.08, abs=0.002)
    assert fp8.greedy.difference.delta == 0.0
    assert "expected score" in headlines(judgement)[0].reason


def test_the_same_answers_without_expected_scores_are_undecided(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", samples=FEW, answers={"bf16": scored(0.5), "int8": scored(0.5)})
    assert overall(judge(path), "int8").shown.kind == "greedy"
    assert words(judge(path), "int8") == {"undecided"}


@pytest.mark.parametrize(("evidence", "word"), [("expected", "pass"), ("greedy", "undecided"), ("both", "undecided")])
def test_the_policy_says_what_a_verdict_rests_on(tmp_path: Path, evidence: str, word: str) -> None:
    policy = Policy.model_validate({"evidence": evidence})
    found = row(tmp_path, policy, bf16=level(noise=0), int8=level())
    assert found.verdict is not None
    assert found.verdict.word == word


def test_both_fails_if_either_fails(tmp_path: Path) -> None:
    found = row(tmp_path, Policy(evidence="both"), bf16=level(noise=0), fp8=level(0.08))
    assert found.verdict is not None
    assert (found.verdict.word, found.shown.kind) == ("fail", "probability")


def test_units_are_never_averaged_and_each_must_pass(tmp_path: Path) -> None:
    samples = make_samples(tasks={"a": "needle", "b": "qa"}, haystacks=8, questions=5, lengths=(2048,))

    def mixed(loss: float) -> Callable[[SampleRow], Any]:
        return lambda row: level(0.0)(row) if row.task == "a" else level(loss, unit="token_accuracy")(row)

    judgement = judge(run_of(tmp_path, samples, bf16=mixed(0.0), fp8=mixed(0.08)))
    fp8 = overall(judgement, "fp8")
    assert [(one.kind, one.asked) for one in fp8.expected] == [("probability", 40), ("token_accuracy", 40)]
    assert fp8.verdict is not None
    assert (fp8.verdict.word, fp8.shown.kind) == ("fail", "token_accuracy")
    assert {str(one.scope): one.verdict.word for one in judgement.of("fp8", "family") if one.verdict} == {
        "needle": "pass",
        "qa": "fail",
    }


def test_a_unit_has_its_own_margin(tmp_path: Path) -> None:
    policy = Policy(unit_margins={"probability": 0.2})
    found = row(tmp_path, policy, bf16=level(noise=0), fp8=level(0.08))
    assert found.verdict is not None
    assert (found.verdict.word, found.verdict.margin) == ("pass", 0.2)


def test_samples_without_an_expected_score_are_judged_by_their_answers(tmp_path: Path) -> None:
    """Else a task that has no reference could lose everything and pass."""
    free = make_samples(tasks={"b": "free"}, haystacks=30, questions=10, lengths=(2048,))
    forced = make_samples(tasks={"a": "needle"}, haystacks=8, questions=5, lengths=(2048,))
    run = load_run(
        make_run(
            tmp_path / "run", samples=[*forced, *free],
            answers={"bf16": scored(0.9), "x": losing(0.3, scored(0.9))},
            expected=dict.fromkeys(("bf16", "x"), lambda row: 0.5 if row.task == "a" else "none"),
        )
    )  # fmt: skip
    found = overall(judge_run(run), "x")
    assert [one.asked for one in found.expected] == [40]
    assert found.rest is not None
    assert found.rest.asked == 300
    assert found.verdict is not None
    assert (found.verdict.word, found.shown.kind) == ("fail", "greedy")


def test_a_second_run_of_a_part_hides_no_loss_of_answers_without_an_expected_score(tmp_path: Path) -> None:
    samples = make_samples(haystacks=30, questions=10, lengths=(2048,))
    part = {one.sample_id for one in samples[::10]}
    with_reference = {one.sample_id for one in samples[1::2]}
    answers = {
        "bf16": scored(0.9), "x": losing(0.3, scored(0.9)),
        "bf16-aa": lambda row, rng: scored(0.9)(row, rng) if row.sample_id in part else None,
    }  # fmt: skip
    path = make_run(
        tmp_path / "run", samples=samples, answers=answers, manifest={"aa_sample_ids": sorted(part)},
        variants={"bf16-aa": {"role": "aa", "of": "bf16"}},
        expected=dict.fromkeys(answers, lambda row: 0.5 if row.sample_id in with_reference else "none"),
    )  # fmt: skip
    found = overall(judge(path), "x")
    assert found.rest is not None
    assert ([one.asked for one in found.expected], found.rest.asked) == ([150], 150)
    assert found.verdict is not None
    assert (found.verdict.word, found.shown.kind) == ("fail", "greedy")


def test_what_could_not_be_forced_counts_against_a_pass(tmp_path: Path) -> None:
    hard = {one.sample_id for one in FEW[:10]}
    found = row(tmp_path, bf16=level(noise=0), int8=lambda one: None if one.sample_id in hard else level()(one))
    assert (found.asked, found.difference.n) == (40, 30)
    assert found.verdict is not None
    assert found.verdict.word == "undecided"
    assert "10 of 40 questions have no answer" in found.verdict.reason


def test_nothing_could_be_forced_on_the_candidate(tmp_path: Path) -> None:
    found = row(tmp_path, bf16=level(noise=0), int8=lambda _: None)
    assert (found.asked, found.difference.n) == (40, 0)
    assert found.verdict is not None
    assert found.verdict.word == "undecided"


def test_a_candidate_that_cannot_be_forced_at_all_is_judged_by_its_answers(tmp_path: Path) -> None:
    found = row(tmp_path, bf16=level(noise=0), int8=lambda _: "none")
    assert (found.expected, found.shown.kind, found.shown.asked, found.difference.n) == ((), "greedy", 40, 40)


def test_an_expected_score_at_the_floor_shows_nothing(tmp_path: Path) -> None:
    found = row(tmp_path, bf16=lambda _: 0.001, fp8=lambda _: 0.0009)
    assert found.verdict is not None
    assert (found.verdict.word, "too hard" in found.verdict.reason) == ("undecided", True)


def test_greedy_answers_that_contradict_take_a_pass_away(tmp_path: Path) -> None:
    samples = make_samples(haystacks=30, questions=10, lengths=(2048,))
    answers = {"bf16": scored(0.9), "x": losing(0.3, scored(0.9))}
    expected = {"bf16": level(noise=0), "x": level()}
    path = make_run(tmp_path / "run", samples=samples, answers=answers, expected=expected)
    found = overall(judge(path), "x")
    assert found.verdict is not None
    assert found.verdict.word == "undecided"
    assert "greedy answers lose" in found.verdict.reason
    assert kveval("gate", path, "--undecided", "allow").code == 5


def test_allow_does_not_let_through_a_unit_that_could_not_be_forced(tmp_path: Path) -> None:
    samples = make_samples(tasks={"a": "needle", "b": "qa"}, haystacks=8, questions=5, lengths=(2048,))

    def half(noise: float, *, is_forced: bool) -> Callable[[SampleRow], Any]:
        of_qa = level(unit="token_accuracy") if is_forced else lambda _: None
        return lambda row: (level(noise=noise) if row.task == "a" else of_qa)(row)

    path = run_of(tmp_path, samples, bf16=half(0.0, is_forced=True), fp8=half(0.5, is_forced=False))
    found = overall(judge(path), "fp8")
    assert found.verdict is not None
    assert (found.verdict.word, found.shown.kind, found.difference.n) == ("undecided", "probability", 40)
    assert kveval("gate", path, "--undecided", "allow").code == 5


def test_a_unit_that_could_not_be_forced_hides_no_loss_of_another(tmp_path: Path) -> None:
    samples = make_samples(tasks={"a": "needle", "b": "qa"}, haystacks=8, questions=5, lengths=(2048, 8192))

    def only_qa(short: float, long: float) -> Callable[[SampleRow], Any]:
        def expected(row: SampleRow) -> Any:
            return (
                None if row.task == "a" else level(short if row.context_length == 2048 else long, 0.001, "entries")(row)
            )

        return expected

    whole = level(noise=0)
    bf16 = lambda row: whole(row) if row.task == "a" else only_qa(0.0, 0.0)(row)  # noqa: E731
    judgement = judge(run_of(tmp_path, samples, bf16=bf16, fp8=only_qa(0.04, -0.015)))
    fp8 = overall(judgement, "fp8")
    assert (fp8.shown.kind, fp8.difference.n) == ("probability", 0)
    (found,) = headlines(judgement)
    assert found.word == "fail"
    assert found.reason.startswith("fails at 2,048 tokens: expected score (entries before the first error) -4.0 points")


def test_the_second_run_of_the_baseline_is_the_noise(tmp_path: Path) -> None:
    expected = {"bf16": level(noise=0), "bf16-aa": level(0.001), "fp8": level(0.08)}
    path = make_run(
        tmp_path / "run", samples=FEW, answers={name: scored(0.5) for name in expected}, expected=expected,
        variants={"bf16-aa": {"role": "aa", "of": "bf16"}},
    )  # fmt: skip
    aa = overall(judge(path), "fp8").shown.aa
    assert aa is not None
    assert aa.delta == pytest.approx(-0.001, abs=0.002)


def test_the_control_divides_an_expected_loss(tmp_path: Path) -> None:
    expected = {"bf16": level(noise=0), "fp8": level(0.08), "fp8-control": level(0.03)}
    path = make_run(
        tmp_path / "run", samples=FEW, answers={name: scored(0.5) for name in expected}, expected=expected,
        variants={"fp8-control": {"role": "control", "of": "fp8"}},
    )  # fmt: skip
    attribution = overall(judge(path), "fp8").attribution
    assert attribution is not None
    assert attribution.format.delta == pytest.approx(-0.03, abs=0.002)
    assert attribution.kernel.delta == pytest.approx(-0.05, abs=0.002)
    assert attribution.blames() == "both"
