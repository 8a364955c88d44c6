from __future__ import annotations

from dataclasses import dataclass

import pytest

from kveval.errors import ConfigError
from kveval.tasks.builders.parameters import check_choice, read_parameters


@dataclass(frozen=True)
class Parameters:
    keys: int = 16
    share: float = 0.5
    form: str = "list"


def test_only_fields_are_read():
    assert read_parameters(Parameters, {"keys": 2, "version": 1}) == {"keys": 2}


def test_a_share_may_be_a_whole_number():
    assert read_parameters(Parameters, {"share": 1}) == {"share": 1.0}


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "many", None])
def test_what_is_not_a_whole_number_from_1_is_refused(value):
    with pytest.raises(ConfigError, match=f"keys={value!r}; use a whole number from 1"):
        read_parameters(Parameters, {"keys": value})


@pytest.mark.parametrize("value", [-0.1, 1.1, True, "half", None])
def test_what_is_not_a_share_is_refused(value):
    with pytest.raises(ConfigError, match=f"share={value!r}; use a number from 0 to 1"):
        read_parameters(Parameters, {"share": value})


def test_a_choice_that_does_not_exist_is_refused():
    check_choice("form", "list", ("list", "summary"))
    with pytest.raises(ConfigError, match="form='poem'; use list or summary"):
        check_choice("form", "poem", ("list", "summary"))
