from __future__ import annotations

import pytest

from kveval.tasks.families.conversation.scorers import latest_value

CHANGED = {"answers": ["654321"], "old_value": "123456", "distractors": ["123456", "777777"], "absent": False}
ABSENT = {"answers": ["not stated"], "old_value": "", "distractors": ["777777"], "absent": True}


@pytest.mark.parametrize(
    ("output", "score", "stale"),
    [
        ("It is 654,321 now.", 1, 0),
        ("123456", 0, 1),
        ("It was 123456 and is 654321 now.", 0, 0),
        ("777777", 0, 0),
        ("<think>123456?</think>654321", 1, 0),
    ],
)
def test_the_value_before_the_change_is_wrong_and_stale(output, score, stale):
    metrics = latest_value(CHANGED, [output])
    assert (metrics["score"], metrics["stale"]) == (score, stale)


@pytest.mark.parametrize(("output", "score"), [("not stated", 1), ("777777", 0)])
def test_nothing_is_stale_where_nothing_was_told(output, score):
    metrics = latest_value(ABSENT, [output])
    assert (metrics["score"], metrics["stale"]) == (score, 0)
