from __future__ import annotations

import json

import pytest
import yaml
from support import DATA

from kveval.tasks.families.structured.scorers import extracted
from kveval.tasks.outcome import classify

ROWS = yaml.safe_load((DATA / "json_answers.yaml").read_text())
RECORD = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "n": {"type": "integer"},
        "price": {"type": "number"},
        "paid": {"type": "boolean"},
    },
    "required": ["id", "n", "price", "paid"],
    "additionalProperties": False,
}
SHORT = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["id", "n"],
    "additionalProperties": False,
}
ONE = {
    "schema": json.dumps(RECORD),
    "key": "id",
    "answers": ['{"id": "A-1", "n": 12, "price": 18.5, "paid": true}'],
}
TWO = {
    "schema": json.dumps({"type": "array", "items": SHORT, "minItems": 1}),
    "key": "id",
    "answers": ['[{"id": "A-1", "n": 12}, {"id": "A-2", "n": 7}]'],
}


@pytest.mark.parametrize(
    ("doc", "row"), [(ONE, row) for row in ROWS["record"]] + [(TWO, row) for row in ROWS["list"]], ids=str
)
def test_answers(doc, row):
    metrics = extracted(doc, [row["output"]])
    assert metrics["score"] == row["score"]
    assert metrics["field_accuracy"] == pytest.approx(row["fields"], abs=1e-4)
    assert metrics["valid"] == row["valid"]


def test_outcomes_tell_a_wrong_value_from_a_wrong_form():
    outcomes = {
        '{"id": "A-1", "n": 12, "price": 18.5, "paid": true}': "correct",
        '{"id": "A-1", "n": 13, "price": 18.5, "paid": true}': "wrong",
        '{"id": "A-1", "n": "12", "price": 18.5, "paid": true}': "invalid_format",
        "Order A-1 has 12 pieces.": "invalid_format",
        "The order is not mentioned.": "abstained",
        "<think>hm</think>": "empty",
    }
    for text, outcome in outcomes.items():
        assert classify(text, "stop", extracted(ONE, [text]), ONE) == outcome
    assert classify('{"id": "A-1", "n": 1', "length", extracted(ONE, ['{"id": "A-1", "n": 1']), ONE) == "truncated"
