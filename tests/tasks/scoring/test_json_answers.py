from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support import DATA

from kveval.tasks.outcome import classify
from kveval.tasks.scoring.json_answers import extracted, json_values, same_json

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
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


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


@given(value=st.lists(JSON) | st.dictionaries(st.text(), JSON), around=st.text("ab \n.`:", max_size=20))
def test_json_is_found_whatever_stands_around_it(value, around):
    (found,) = json_values(around + json.dumps(value) + around)
    assert same_json(found, value)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 20_000, "{" * 200_000, '[1, {"a": 2'], ids=len)
def test_hostile_brackets_hold_nothing_and_cost_little(text):
    assert json_values(text) in ([], [{"a": 2}])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [(1, 1.0, True), (1, "1", False), (1, True, False), (0, False, False), ("a", "A", False), (None, False, False)],
)
def test_equality_is_jsons(one, other, same):
    assert same_json(one, other) is same
    assert same_json({"k": [one]}, {"k": [other]}) is same
