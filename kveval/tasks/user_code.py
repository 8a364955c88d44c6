"""Code that a task brings with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kveval.errors import ConfigError, KvevalError


@contextmanager
def user_code(what: str) -> Iterator[None]:
    """Around code that may raise whatever it likes.

    Raises:
        ConfigError: it raised what is no KvevalError.
    """
    try:
        yield
    except KvevalError:
        raise
    except Exception as error:
        raise ConfigError(f"{what} fails: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
