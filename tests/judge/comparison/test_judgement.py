"""Every variant is compared with the baseline at every level."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.judge_command import kveval
from support.judgement import absent, failing, judge, losing, overall, words
from support.make_run import Answer, make_run, make_samples, scored

from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.scope import Scope


def test_equal_variants_pass_and_a_losing_one_fails(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers={"bf16": scored(0.9), "same": scored(0.9), "fp8": losing(0.08, scored(0.9))},
    )
    judgement = judge(path)
    assert [(h.variant, h.word) for h in headlines(judgement)] == [("same", "pass"), ("fp8", "fail")]
    same, fp8 = overall(judgement, "same"), overall(judgement, "fp8")
    assert same.identical == 1
    assert (same.difference.delta, same.difference.n, same.difference.clusters) == (0, 600, 600)
    assert fp8.flips.gained == 0
    assert fp8.difference.delta == pytest.approx(-fp8.flips.lost / 600)
    assert fp8.candidate_score.mean == pytest.approx(fp8.baseline_score.mean + fp8.difference.delta)
    assert fp8.outcomes["candidate"]["wrong"] == fp8.outcomes["baseline"]["wrong"] + fp8.flips.lost
    assert sum(fp8.outcomes["candidate"].values()) == fp8.asked == 600


def test_levels_cover_every_cell(tmp_path: Path) -> None:
    samples = make_samples(tasks={"a": "needle", "b": "needle", "c": "qa"}, haystacks=6, questions=2)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.7), "fp8": scored(0.6)})
    judgement = judge(path)
    assert [c.scope for c in judgement.of("fp8", "length")] == [
        Scope("length", context_length=2048),
        Scope("length", context_length=8192),
    ]
    assert [(c.scope.family, c.asked) for c in judgement.of("fp8", "family")] == [("needle", 48), ("qa", 24)]
    assert len(judgement.of("fp8", "cell")) == 6
    assert sum(c.asked for c in judgement.of("fp8", "cell")) == overall(judgement, "fp8").asked == 72


def test_one_length_is_one_hypothesis(tmp_path: Path) -> None:
    samples = make_samples(lengths=(2048,))
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.9), "fp8": scored(0.8)})
    judgement = judge(path)
    for comparison in judgement.comparisons:
        assert comparison.verdict is not None
        assert comparison.verdict.p_holm == comparison.difference.p_beyond


def test_engine_errors_are_counted_and_never_pass(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers={
            "bf16": scored(0.9), "few": failing(0.005, scored(0.9)), "many": failing(0.1, scored(0.9)),
            "all": failing(1.1, scored(0.9)), "none": absent,
        },
    )  # fmt: skip
    judgement = judge(path)
    many = overall(judgement, "many")
    errors = many.outcomes["candidate"]["engine_error"]
    assert errors > 30
    assert many.difference.n == 600 - errors
    assert many.difference.delta == 0
    assert many.verdict is not None
    assert many.verdict.word == "undecided"
    assert f"{errors} of 600 questions have no answer" in many.verdict.reason
    assert words(judgement, "all") == words(judgement, "none") == {"undecided"}
    assert overall(judgement, "none").outcomes["candidate"]["missing"] == 600
    few = overall(judgement, "few")
    assert few.difference.n < 600
    assert few.verdict is not None
    assert few.verdict.word == "pass"


@pytest.mark.parametrize("status", ["refused", "failed", "stopped", "running", "planned"])
def test_an_unfinished_variant_does_not_pass(tmp_path: Path, status: str) -> None:
    path = make_run(
        tmp_path / "run",
        answers={"bf16": scored(0.9), "fp8": scored(0.9)},
        variants={"fp8": {"status": status, "reason": "the engine said no"}},
    )
    judgement = judge(path)
    assert words(judgement, "fp8") == {"undecided"}
    assert "the engine said no" in headlines(judgement)[0].reason


def test_an_unfinished_baseline_passes_nothing(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers={"bf16": scored(0.9), "fp8": scored(0.9)},
        variants={"bf16": {"status": "stopped"}},
    )
    assert words(judge(path), "fp8") == {"undecided"}


def test_one_sample(tmp_path: Path) -> None:
    samples = make_samples(lengths=(2048,), haystacks=1, questions=1)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(1.1), "fp8": scored(-0.1)})
    judgement = judge(path)
    assert words(judgement, "fp8") == {"undecided"}
    assert overall(judgement, "fp8").flips.lost == 1


def test_a_gain_that_no_cache_can_cause_is_no_pass(tmp_path: Path) -> None:
    """A baseline that collapsed: too few contexts to say so with confidence, and enough to doubt it."""
    samples = make_samples(haystacks=6, questions=10)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.3), "fp8": scored(0.9)})
    found = overall(judge(path), "fp8")
    assert found.difference.low is not None
    assert found.difference.low > 0.02
    assert found.verdict is not None
    assert found.verdict.word == "undecided"


def test_allow_does_not_let_through_a_gain_that_no_cache_can_cause(tmp_path: Path) -> None:
    samples = make_samples(haystacks=6, questions=10)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.7), "fp8": scored(0.9)})
    judgement = judge(path)
    # Sure at 95%, and not sure enough to be called impossible.
    assert judgement.problems == ()
    assert "which no cache format causes" in headlines(judgement)[0].reason
    assert kveval("gate", path, "--undecided", "allow").code == 5


def test_another_model_may_gain(tmp_path: Path) -> None:
    samples = make_samples(haystacks=6, questions=10)
    other = {"fp8": {"spec": {"model": "/models/other"}}}
    path = make_run(
        tmp_path / "run", samples=samples, variants=other, answers={"bf16": scored(0.3), "fp8": scored(0.9)}
    )
    assert words(judge(path), "fp8") == {"pass"}


def in_family(family: str, answer: Answer, otherwise: Answer) -> Answer:
    return lambda row, rng: (answer if row.family == family else otherwise)(row, rng)


def test_an_advisory_family_is_judged_and_never_in_the_way(tmp_path: Path) -> None:
    samples = make_samples(tasks={"niah": "needle", "extract": "structured"}, haystacks=200, questions=1)
    answers = {"bf16": scored(0.9), "fp8": in_family("structured", scored(0.5), scored(0.9))}
    path = make_run(tmp_path / "run", samples=samples, answers=answers)
    blocking = judge(path)
    assert [h.word for h in headlines(blocking)] == ["fail"]
    tiers = {"judge": {"tiers": {"structured": "advisory"}}}
    advisory = judge(make_run(tmp_path / "advisory", samples=samples, answers=answers, manifest={"config": tiers}))
    (headline,) = headlines(advisory)
    assert headline.word == "pass"
    assert "does not block, because advisory: at structured" in headline.reason
    # Only what blocks is in the rows that must all pass.
    assert overall(advisory, "fp8").asked == 400
    assert {c.asked for c in advisory.of("fp8", "length")} == {200}
    words = {(c.scope.family, c.is_advisory, c.verdict.word) for c in advisory.of("fp8", "family") if c.verdict}
    assert words == {("needle", False, "pass"), ("structured", True, "fail")}
    assert kveval("gate", tmp_path / "advisory").code == 0
    assert kveval("gate", path).code == 1
    assert kveval("gate", path, "--tiers", "structured=advisory").code == 0


def test_what_only_reports_takes_no_certainty_from_what_blocks(tmp_path: Path) -> None:
    tasks = {"niah": "needle", **{f"extract_{i}": "structured" for i in range(6)}}
    samples = make_samples(tasks=tasks, lengths=(2048,), haystacks=100, questions=1)
    answers = {"bf16": scored(0.9), "fp8": scored(0.85)}
    found = []
    for tier in ("blocking", "advisory"):
        config = {"judge": {"tiers": {"structured": tier}}}
        judgement = judge(make_run(tmp_path / tier, samples=samples, answers=answers, manifest={"config": config}))
        found.append(
            next(c.verdict.p_holm for c in judgement.of("fp8", "family") if c.verdict and c.scope.family == "needle")
        )
    assert found[0] is not None
    assert found[1] is not None
    assert found[1] <= found[0]


def test_a_run_in_which_nothing_blocks_is_not_judged(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": scored(0.9)})
    result = kveval("gate", path, "--tiers", "needle=advisory")
    assert result.code == 2
    assert "every family of this run is advisory (needle), so nothing could block" in result.text
