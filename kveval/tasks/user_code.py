"""Runs code that a user brings with a task, and names it when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kveval.errors import ConfigError, KvevalError


@contextmanager
def user_code(what: str) -> Iterator[None]:
    """Turns whatever a user's code raises into a `ConfigError` that names the code. A `KvevalError` stays as it is.

    Args:
        what: what is run, as a message calls it: "the scorer of crate_bins".
    """
    try:
        yield
    except KvevalError:
        raise
    except Exception as error:
        raise ConfigError(f"{what} fails: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """Returns the type and message of an error on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
