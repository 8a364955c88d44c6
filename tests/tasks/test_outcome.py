from __future__ import annotations

import pytest

from kveval.tasks.families.multidoc_qa.scorers import answered
from kveval.tasks.families.needle.scorers import values_named
from kveval.tasks.outcome import classify

DOC = {"answers": ["1234567"], "distractors": ["7654321"], "absent": False}
ABSENT = {"answers": ["not stated"], "distractors": ["1234567", "7654321"], "absent": True}


@pytest.mark.parametrize(
    ("text", "finish_reason", "doc", "outcome"),
    [
        ("1234567", "stop", DOC, "correct"),
        ("1234567 and the text goes on", "length", DOC, "correct"),
        ("7654321", "stop", DOC, "wrong"),
        ("1234567 or 7654321", "stop", DOC, "wrong"),
        ("The number is in the archive.", "stop", DOC, "wrong"),
        ("not stated", "stop", DOC, "abstained"),
        ("The text does not say", "length", DOC, "abstained"),
        ("", "stop", DOC, "empty"),
        (" \n**", "stop", DOC, "empty"),
        ("<think>hm</think>", "stop", DOC, "empty"),
        ("", "length", DOC, "truncated"),
        ("<think>the text says that", "length", DOC, "truncated_thinking"),
        ("[THINK]the text says that", "length", DOC, "truncated_thinking"),
        ("<think>the text says that", "stop", DOC, "empty"),
        ("I'm sorry, but I can't assist with that request.", "stop", DOC, "refused"),
        ("I cannot help with that. The number is 1234567.", "stop", DOC, "correct"),
        ("I'm sorry, but I can't assist with that request.", "stop", ABSENT, "refused"),
        ("I'm sorry, the text does not say.", "stop", DOC, "abstained"),
        ("The text is about startups, and the", "length", DOC, "truncated"),
        ("The number is 7654321. It is", "length", DOC, "wrong"),
        ("not stated", "stop", ABSENT, "correct"),
        ("1234567", "stop", ABSENT, "wrong"),
        ("5550123", "stop", ABSENT, "wrong"),
        ("", "stop", ABSENT, "empty"),
        (None, None, DOC, "engine_error"),
        (None, "stop", DOC, "engine_error"),
        ("", None, DOC, "engine_error"),
    ],
)
def test_every_output_has_one_outcome(text, finish_reason, doc, outcome):
    metrics = values_named(doc, [text]) if text is not None else {}
    assert classify(text, finish_reason, metrics, doc) == outcome


def test_an_output_that_breaks_the_asked_format_is_invalid():
    assert classify("{oops", "stop", {"score": 0.0, "valid": 0.0}, {"answers": []}) == "invalid_format"
    assert classify("{oops", "length", {"score": 0.0, "valid": 0.0}, {"answers": []}) == "truncated"


def test_a_claim_beside_an_abstention_is_wrong_where_the_answer_is_absent():
    doc = {"question": "How far?", "answers": ["not stated"], "distractors": ["7 miles"], "absent": True}
    text = "The documents do not say. Perhaps seven miles."
    assert answered(doc, [text])["score"] == 0
    assert classify(text, "stop", answered(doc, [text]), doc) == "wrong"


def test_a_server_may_keep_the_thinking_that_used_up_the_budget():
    assert classify("", "length", {"score": 0.0}, DOC, thinking=True) == "truncated_thinking"
    assert classify("", "stop", {"score": 0.0}, DOC, thinking=True) == "empty"
