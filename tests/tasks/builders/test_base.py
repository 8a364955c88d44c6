from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kveval.errors import ConfigError
from kveval.tasks.builders.base import (
    Builder,
    Haystack,
    Needle,
    Question,
    check_choice,
    depths_percent,
    evenly_spaced,
)


@dataclass(frozen=True)
class Facts(Builder):
    keys: int = 16
    share: float = 0.5

    def haystack(self, numbers, depth_shift, rng):
        return Haystack([], [])


def test_a_builder_takes_its_fields_from_the_metadata():
    assert Facts.from_metadata({"version": 1, "keys": 3}) == Facts(3)


def test_a_field_that_the_metadata_leaves_out_keeps_its_default():
    assert Facts.from_metadata({}) == Facts(16)


def test_a_context_holds_any_number_of_questions_by_default():
    assert Facts().most_questions(1024) is None


def test_a_question_about_one_needle_has_all_others_as_distractors():
    question = Question.about({}, ["a", "b", "c"], 1)
    assert (question.answers, question.needles, question.distractors) == (("b",), (1,), ("a", "c"))


def test_a_question_about_several_needles_has_all_their_answers():
    question = Question.about({}, ["a", "b", "c"], 2, 0)
    assert (question.answers, question.needles, question.distractors) == (("c", "a"), (2, 0), ("b",))


def test_needles_of_texts_keep_their_order():
    assert evenly_spaced(["a", "b"], 0.5, lead="\n") == [Needle("a", 25.0, "\n"), Needle("b", 75.0, "\n")]


@given(needles=st.integers(1, 50), depth_shift=st.floats(0, 1, exclude_max=True))
def test_depths_are_evenly_spaced(needles, depth_shift):
    depths = depths_percent(needles, depth_shift)
    assert all(0 <= depth <= 100 for depth in depths)
    assert np.allclose(np.diff(depths), 100 / needles)


def test_a_share_may_be_a_whole_number():
    share = Facts.from_metadata({"share": 1}).share
    assert isinstance(share, float)
    assert share == 1.0


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "many", None])
def test_what_is_not_a_whole_number_from_1_is_refused(value):
    with pytest.raises(ConfigError, match=f"keys={value!r}; use a whole number from 1"):
        Facts.from_metadata({"keys": value})


@pytest.mark.parametrize("value", [-0.1, 1.1, True, "half", None])
def test_what_is_not_a_share_is_refused(value):
    with pytest.raises(ConfigError, match=f"share={value!r}; use a number from 0 to 1"):
        Facts.from_metadata({"share": value})


def test_a_choice_that_does_not_exist_is_refused():
    check_choice("form", "list", ("list", "summary"))
    with pytest.raises(ConfigError, match="form='poem'; use list or summary"):
        check_choice("form", "poem", ("list", "summary"))
