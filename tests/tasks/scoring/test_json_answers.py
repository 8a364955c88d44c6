from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kveval.tasks.scoring.json_answers import json_values, loads, same_json

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


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


@pytest.mark.parametrize("text", ["NaN", '{"a": Infinity}', "{'a': 1}", "", "[" * 100_000])
def test_a_text_that_is_not_json_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        loads(text)
