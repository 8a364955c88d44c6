"""What pydantic found wrong, in kveval's words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError, field_validator

from kveval.config.messages import explain, shown
from kveval.config.values import StrictModel


class Inner(StrictModel):
    size: Annotated[int, Field(gt=0, le=8)] = 1
    word: Literal["one", "two"] = "one"

    @field_validator("word")
    @classmethod
    def _no_two(cls, word: str) -> str:
        if word == "two":
            raise ValueError("two is taken; use: one")
        return word


class Outer(StrictModel):
    name: str
    inner: Inner = Inner()
    several: tuple[Inner, ...] = ()
    either: float | list[str] = 1.0


def said(keys: Any, within: str = "") -> str:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(keys)
    return explain(caught.value, Outer, within)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "name: required, not given"),
        ({"name": 3}, "name: 3 is not allowed; use: text"),
        ({"name": "a", "inner": {"size": 0}}, "inner.size: 0 is not allowed; use: a number above 0"),
        ({"name": "a", "inner": {"size": 9}}, "inner.size: 9 is not allowed; use: 8 or less"),
        ({"name": "a", "inner": {"word": "three"}}, "inner.word: 'three' is not allowed; use: 'one' or 'two'"),
        ({"name": "a", "inner": {"word": "two"}}, "inner.word: two is taken; use: one"),
        ({"name": "a", "inner": 3}, "inner: 3 is not allowed; use: keys with values"),
        ({"name": "a", "either": "x"}, "either: 'x' is not allowed; use: a number"),
        # A misspelt key explains the one that is missing.
        ({"nam": "a"}, "unknown key 'nam'; did you mean 'name'?"),
        ({"name": "a", "several": [{}, {"sise": 1}]}, "unknown key 'several.1.sise'; did you mean 'size'?"),
    ],
)
def test_the_key_the_value_and_what_to_use(keys: dict[str, Any], message: str) -> None:
    assert said(keys).startswith(message)


def test_the_key_of_what_holds_the_model_comes_first() -> None:
    assert said({"name": 3}, "task") == "task.name: 3 is not allowed; use: text"
    assert said({"nam": "a"}, "task").startswith("unknown key 'task.nam'; did you mean 'name'?")
    assert said([], "task") == "task: [] is not allowed; use: keys with values"


def test_what_is_no_json_is_not_repeated() -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate_json("{broken")
    assert explain(caught.value, Outer).startswith("invalid JSON: ")


def test_long_values_are_cut() -> None:
    assert shown("short") == "'short'"
    assert shown("x" * 500) == "'" + "x" * 79 + "…"
