from __future__ import annotations

import pytest

from kveval.errors import ConfigError, DataError
from kveval.tasks.user_code import user_code


def test_a_failure_names_what_failed_on_one_line():
    with pytest.raises(ConfigError, match=r"^the scorer fails: ValueError: one two$"), user_code("the scorer"):
        raise ValueError("one\n  two")


def test_kvevals_own_errors_pass_through():
    with pytest.raises(DataError, match=r"^no data$"), user_code("the scorer"):
        raise DataError("no data")
