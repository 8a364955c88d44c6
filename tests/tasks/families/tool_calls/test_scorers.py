from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support import DATA

from kveval.tasks.families.tool_calls.scorers import called
from kveval.tasks.outcome import classify
from kveval.tasks.scoring.calls import UnreadableCallsError, calls_in, calls_text, is_silent
from kveval.tasks.scoring.function_schema import fits_schema, json_schema, tool_function, tool_name

TABLE = yaml.safe_load((DATA / "tool_answers.yaml").read_text())


def doc(question):
    expected = TABLE["questions"][question]
    names = {call["name"] for call in expected}
    return {
        "expected": json.dumps(expected),
        "functions": json.dumps([f for f in TABLE["functions"] if f["name"] in names]),
        "answers": ["no function"],
        "distractors": [],
        "absent": not expected,
    }


@pytest.mark.parametrize("row", TABLE["answers"], ids=lambda row: f"{row['question']}: {row['output']}"[:90])
def test_tricky_answers(row):
    metrics = called(doc(row["question"]), [row["output"]])
    assert classify(row["output"], row.get("finish_reason", "stop"), metrics, doc(row["question"])) == row["outcome"]
    assert metrics["score"] == (row["outcome"] == "correct")
    assert set(metrics) == {"score", "names", "valid", "abstained"}


def test_right_names_with_wrong_arguments_are_seen():
    metrics = called(doc("one"), ['{"name": "area_triangle", "arguments": {"base": 1, "height": 5}}'])
    assert metrics == {"score": 0.0, "names": 1.0, "valid": 1.0, "abstained": 0.0}


@pytest.mark.parametrize(
    ("text", "silent"), [("", True), (" \n", True), ("```\n```", True), ("[]", False), ("[ ]", False), ("no", False)]
)
def test_an_empty_list_of_calls_is_more_than_silence(text, silent):
    assert is_silent(text) == silent


@given(st.text(max_size=60) | st.text(alphabet='[]{}":,()=<>\\ name arguments tool_call1', max_size=60))
def test_no_output_breaks_the_reader(text):
    try:
        calls = calls_in(text)
    except UnreadableCallsError:
        return
    assert all(isinstance(call["name"], str) and isinstance(call["arguments"], dict) for call in calls)


def test_hostile_outputs_are_read_too():
    for text in (
        "[" * 100_000,
        '{"name": ' * 50_000,
        "f(" * 5000,
        f"f(a={'[' * 3000}",
        "a_" * 20_000,
        "f(1)\n}" * 5000,
    ):
        metrics = called(doc("one"), [text])
        assert metrics["score"] == 0.0


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.fixed_dictionaries({"name": st.text(min_size=1, max_size=8), "arguments": st.dictionaries(
    st.text(max_size=5), json_like, max_size=3)}), min_size=1, max_size=3))  # fmt: skip
def test_what_is_written_is_read_again(calls):
    assert calls_in(calls_text(calls)) == calls


def test_bfcl_types_become_json_schema():
    declared = {
        "type": "dict",
        "properties": {
            "a": {"type": "float", "description": "x", "default": 1.0},
            "b": {"type": "tuple", "items": {"type": "integer"}},
            "c": {"type": "any"},
            "d": {"type": "HashMap", "properties": {"e": {"type": "String", "enum": ["x"]}}, "required": ["e"]},
            "f": {"type": "ArrayList"},
        },
        "required": ["a", "gone"],
    }
    assert json_schema(declared) == {
        "type": "object",
        "properties": {
            "a": {"type": "number", "description": "x", "default": 1.0},
            "b": {"type": "array", "items": {"type": "integer"}},
            "c": {},
            "d": {"type": "object", "properties": {"e": {"type": "string", "enum": ["x"]}}, "required": ["e"]},
            "f": {"type": "array"},
        },
        "required": ["a"],
    }
    function = {"name": "geo.area tri", "description": "two\n lines", "parameters": declared}
    assert tool_function(function)["name"] == tool_name("geo.area tri") == "geo_area_tri"
    assert tool_function(function)["description"] == "two lines"
    assert fits_schema({"a": 1, "b": [1]}, function)
    assert not fits_schema({"a": 1, "b": ["x"]}, function)
    assert not fits_schema([], function)
