from __future__ import annotations

import math

import numpy as np
import pytest

from kveval.tasks.references.expected import MissingProbabilityError, expected_of
from kveval.tasks.references.forced import ForcedText
from kveval.tasks.references.reference import FORMAT, Piece, Reference, References

ONE = Reference((Piece("x", "answer"),))


def text(ids, *parts):
    return ForcedText(np.array(ids, np.int32), parts)


def logs(*probabilities):
    return [math.log(p) if p else -math.inf for p in probabilities]


def references(unit, alternatives=1, contrasts=0):
    return References(unit, (ONE,) * alternatives, (ONE,) * contrasts)


def test_a_probability_is_the_product_over_scored_tokens():
    found = expected_of(references("probability"), [text([1, 2, 3], None, "answer", "answer")], [logs(0.001, 0.5, 0.4)])
    assert (found.score, found.unit) == (pytest.approx(0.2), "probability")
    assert found.parts == {"answer": pytest.approx(0.2)}


def test_the_format_around_values_is_reported_and_not_scored():
    found = expected_of(
        references("probability"),
        [text([1, 2, 3, 4], FORMAT, "value", FORMAT, "value")],
        [logs(0.1, 0.5, 0.2, 0.8)],
    )
    assert found.score == pytest.approx(0.4)
    assert found.parts == {FORMAT: pytest.approx(0.02), "value": pytest.approx(0.4)}


def test_answers_that_exclude_each_other_add_up_to_one_at_most():
    texts = [text([1, 2], "answer", "answer"), text([3, 4], "answer", "answer")]
    found = expected_of(references("probability", 2), texts, [logs(0.5, 0.5), logs(0.25, 1)])
    assert found.score == found.parts["answer"] == pytest.approx(0.5)
    assert expected_of(references("probability", 2), texts, [logs(0.9, 0.9), logs(0.9, 0.9)]).score == 1.0


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_answer_that_begins_with_another_adds_nothing(order):
    texts = [text([1], "answer"), text([1, 2], "answer", "answer")]
    logprobs = [logs(0.6), logs(0.6, 0.5)]
    found = expected_of(references("probability", 2), [texts[k] for k in order], [logprobs[k] for k in order])
    assert found.score == pytest.approx(0.6)


def test_the_same_answer_twice_counts_once():
    texts = [text([1], "answer"), text([1], "answer")]
    assert expected_of(references("probability", 2), texts, [logs(0.6), logs(0.6)]).score == pytest.approx(0.6)


def test_a_contrast_stands_beside_the_score():
    texts = [text([1], "answer"), text([2], "answer")]
    found = expected_of(references("probability", 1, 1), texts, [logs(0.6), logs(0.3)])
    assert (found.score, found.parts["contrast"]) == (pytest.approx(0.6), pytest.approx(0.3))


def test_token_accuracy_is_the_mean_over_scored_tokens_of_the_first_answer():
    texts = [text([1, 2, 3], None, "answer", "citation"), text([4], "answer")]
    found = expected_of(references("token_accuracy", 2), texts, [logs(0.1, 0.2, 0.6), logs(1)])
    assert found.score == pytest.approx(0.4)
    assert found.parts == {"answer": pytest.approx(0.2), "citation": pytest.approx(0.6)}


def entries(ids, count):
    return text(ids, *(f"entry {k}" for k in range(1, count + 1)))


def test_entries_are_counted_before_the_first_error():
    found = expected_of(references("entries"), [entries([1, 2, 3], 3)], [logs(0.8, 0.5, 0)])
    assert found.score == pytest.approx((0.8 + 0.4 + 0) / 3)
    assert found.parts == {"entry 1": pytest.approx(0.8), "entry 2": pytest.approx(0.4), "entry 3": 0.0}


def test_orders_that_begin_alike_count_their_beginning_once():
    orders = [entries([1, 2], 2), entries([2, 1], 2)]
    found = expected_of(references("entries", 2), orders, [logs(0.5, 0.9), logs(0.3, 1)])
    assert found.parts == {"entry 1": pytest.approx(0.8), "entry 2": pytest.approx(0.75)}
    three = [entries(ids, 3) for ids in ([1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1])]
    found = expected_of(references("entries", 6), three, [logs(1 / 3, 1 / 2, 1)] * 6)
    assert found.score == pytest.approx(1.0)


def test_each_quarter_of_a_long_list_begins_anew():
    size = 16
    probabilities = [1.0] * 4 + [0.0] + [1.0] * 3 + [0.5] * 4 + [1.0] * 4
    found = expected_of(references("entries"), [entries(list(range(size)), size)], [logs(*probabilities)])
    assert found.score == pytest.approx(4 / 16)
    assert found.parts == {
        "q1": 1.0,
        "q2": 0.0,
        "q3": pytest.approx((0.5 + 0.25 + 0.125 + 0.0625) / 4),
        "q4": pytest.approx(1.0),
    }


@pytest.mark.parametrize("unit", ["probability", "token_accuracy", "entries"])
def test_an_excluded_token_has_probability_zero(unit):
    assert expected_of(references(unit), [text([1], "entry 1")], [[-math.inf]]).score == 0.0


@pytest.mark.parametrize("unit", ["probability", "token_accuracy", "entries"])
@pytest.mark.parametrize(
    ("logprobs", "says"),
    [
        ([-0.1, math.nan], "token 1 of a reference is not a number"),
        ([-0.1], "1 of the 2 tokens of a reference have a logprob"),
        ([], "0 of the 2 tokens"),
        ([-0.1, None], "not a number"),
        ([-0.1, 0.5], "above 0"),
        ([-0.1, math.inf], "above 0"),
    ],
)
def test_what_is_no_probability_is_never_a_score(unit, logprobs, says):
    with pytest.raises(MissingProbabilityError, match=says):
        expected_of(references(unit), [text([1, 2], None, "entry 1")], [logprobs])


def test_a_lead_without_probabilities_is_a_broken_answer_too():
    with pytest.raises(MissingProbabilityError, match="token 0"):
        expected_of(references("probability"), [text([1, 2], None, "answer")], [[math.nan, -0.1]])


def test_rounding_above_zero_is_one():
    assert expected_of(references("probability"), [text([1], "answer")], [[1e-6]]).score == 1.0
