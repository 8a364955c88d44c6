"""The tree of errors and its exit codes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kveval import errors
from kveval.errors import ExitCode, KvevalError


def below(error: type[KvevalError]) -> Iterator[type[KvevalError]]:
    for child in error.__subclasses__():
        yield child
        yield from below(child)


def test_the_docstring_shows_every_error() -> None:
    for error in below(KvevalError):
        if error.__module__ == errors.__name__:
            assert f"─ {error.__name__} " in (errors.__doc__ or "")


@pytest.mark.parametrize("error", list(below(KvevalError)), ids=lambda error: error.__name__)
def test_no_error_has_the_exit_code_of_a_pass_or_a_loss(error: type[KvevalError]) -> None:
    assert error.exit_code not in (ExitCode.OK, ExitCode.LOSS)


def test_a_close_name_is_suggested() -> None:
    assert errors.nearest("fp9", ["int8", "fp8"]) == "did you mean 'fp8'? use: fp8, int8"


def test_a_name_like_no_other_gets_the_list() -> None:
    assert errors.nearest("zzz", ["int8", "fp8"]) == "use: fp8, int8"
