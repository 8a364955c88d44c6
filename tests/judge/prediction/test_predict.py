"""A plan says what it can show, per length and overall, and what to change if it cannot decide."""

from __future__ import annotations

from kveval.config.judge import Policy
from kveval.judge.comparison.endpoint import Kind
from kveval.judge.prediction.predict import PlannedCell, predict
from kveval.judge.prediction.prediction import Prediction
from kveval.judge.prediction.variance import KnownSpread
from kveval.judge.statistics.planned import Spread


def cells(haystacks: int, *, kind: Kind = "greedy", lengths: tuple[int, ...] = (2048, 8192)) -> list[PlannedCell]:
    return [PlannedCell("niah_single", "needle", length, kind, 10 * haystacks, haystacks) for length in lengths]


def predicted(planned: list[PlannedCell], policy: Policy | None = None) -> Prediction:
    return predict(planned, policy or Policy(), {}, candidates=1)


def test_two_haystacks_a_length_warn_and_say_what_to_change() -> None:
    found = predicted(cells(2))
    assert [(row.context_length, row.can_pass) for row in found.rows] == [(2048, False), (8192, False), (None, False)]
    assert found.warnings[0].startswith(
        "at 2,048 tokens, at 8,192 tokens: cannot pass: 20 questions about 2 contexts, and a pass needs at least 6 "
        "contexts; use samples"
    )
    assert [warning.partition(":")[0] for warning in found.warnings] == ["at 2,048 tokens, at 8,192 tokens", "overall"]


def test_what_is_advised_is_enough() -> None:
    advised = int(predicted(cells(2)).warnings[0].split("use samples: ")[1].split()[0])
    again = predicted(cells(advised // 10))
    assert again.warnings == []
    assert all(row.chance_to_pass >= 0.79 for row in again.rows)


def test_expected_scores_decide_with_far_fewer_questions() -> None:
    greedy, expected = (predicted(cells(30, kind=kind)).rows[0] for kind in ("greedy", "probability"))
    assert expected.questions_for["0.02"] is not None
    assert greedy.questions_for["0.02"] is not None
    assert 10 * expected.questions_for["0.02"] < greedy.questions_for["0.02"]
    assert expected.chance_to_pass > 0.9
    assert list(greedy.questions_for) == ["0.01", "0.02", "0.05"]


def test_a_plan_that_will_probably_stay_undecided_warns() -> None:
    (warning, *_) = predicted(cells(30)).warnings
    assert "will probably end undecided at a margin of 2 points with 300 questions about 30 contexts" in warning
    assert "even if nothing is lost" in warning


def test_the_variance_is_stated_and_taken_from_earlier_runs_if_there_are_some() -> None:
    assert predicted(cells(30)).variances[0].startswith("greedy: a careful default: ")
    known: dict[Kind, KnownSpread] = {"greedy": KnownSpread(Spread(0.03, 0.03), "the candidate in runs/a")}
    found = predict(cells(60), Policy(), known, candidates=1)
    assert found.variances == ["greedy: the candidate in runs/a"]
    assert found.warnings == []


def test_each_unit_is_predicted_by_itself_and_both_adds_greedy_answers() -> None:
    mixed = [*cells(30, kind="probability"), *cells(30, kind="entries")]
    assert {row.evidence for row in predicted(mixed).rows} == {"probability", "entries"}
    both = predicted(mixed, Policy(evidence="both"))
    assert {row.evidence for row in both.rows} == {"probability", "entries", "greedy"}


def test_advisory_families_are_left_out() -> None:
    planned = [*cells(30, kind="probability"), PlannedCell("extract", "structured", 2048, "greedy", 10, 1)]
    found = predicted(planned, Policy(tiers={"structured": "advisory"}))
    assert {row.evidence for row in found.rows} == {"probability"}


def test_more_rows_read_together_need_a_larger_loss() -> None:
    one, many = (predict(cells(30), Policy(), {}, candidates=count).rows[0].detectable_loss for count in (1, 5))
    assert one is not None
    assert many is not None
    assert many > one > Policy().margin


def test_a_relative_margin_is_said_not_to_be_known_yet() -> None:
    warnings = predicted(cells(30, kind="probability"), Policy(margin_relative=0.05)).warnings
    assert [warning.partition(":")[0] for warning in warnings] == ["judge.margin_relative"]
