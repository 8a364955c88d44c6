from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support import DATA

from kveval.tasks.scoring.calls import UnreadableCallsError, calls_in, calls_text, is_silent, statements_of
from kveval.tasks.scoring.reasoning import answer_of

WRITTEN = yaml.safe_load((DATA / "written_calls.yaml").read_text(encoding="utf-8"))
CALL = {"name": "get_w", "arguments": {"city": "Oslo", "days": 2}}
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


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


@given(st.lists(st.fixed_dictionaries({"name": st.text(min_size=1, max_size=8), "arguments": st.dictionaries(
    st.text(max_size=5), json_like, max_size=3)}), min_size=1, max_size=3))  # fmt: skip
def test_what_is_written_is_read_again(calls):
    assert calls_in(calls_text(calls)) == calls


def test_source_is_read_as_statements():
    assert [type(statement).__name__ for statement in statements_of("x = 1\nf(x)") or ()] == ["Assign", "Expr"]
    assert statements_of("") == []


@pytest.mark.parametrize("source", ["def f(:", "It is not stated.", "x = '", "\0", "(" * 5000])
def test_anything_else_is_not_python(source):
    assert statements_of(source) is None


@pytest.mark.parametrize("text", WRITTEN["readable"])
def test_calls_are_read_in_the_forms_of_models_whose_server_has_no_parser(text):
    assert {str(call) for call in calls_in(answer_of(text))} == {str(CALL)}


@pytest.mark.parametrize("text", WRITTEN["partial"])
def test_a_call_of_one_argument_is_read_too(text):
    assert calls_in(answer_of(text)) == [{"name": "get_w", "arguments": {"city": "Oslo"}}]


@pytest.mark.parametrize("text", WRITTEN["unreadable"])
def test_a_form_that_cannot_be_read_is_an_attempt_and_never_silence(text):
    with pytest.raises(UnreadableCallsError):
        calls_in(answer_of(text))
