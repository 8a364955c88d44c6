"""What every way to read the probabilities of texts has in common."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from kveval.run.facts import Finding
from kveval.run.records import ExpectedMethod

T = TypeVar("T")

CHECKED_TOKENS = 8
"""How many tokens of a text the check of a server reads."""


class ForcedDecodeError(Exception):
    """A text could not be forced.

    Attributes:
        kind: as of `EngineAnswer.error_kind`, or not_forced, no_result.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class ProbabilityReader(Protocol):
    """Reads how probable a server finds given texts.

    Attributes:
        temperature: of the probabilities.
        most_tokens: the most tokens that all texts of one sample may have together. None sets no limit.
    """

    @property
    def method(self) -> ExpectedMethod: ...
    @property
    def temperature(self) -> float: ...
    @property
    def most_tokens(self) -> int | None: ...

    def requests(self, tokens: int) -> int:
        """Returns how many requests a text of so many tokens takes."""
        ...

    async def logprobs(self, prompt_ids: np.ndarray, token_ids: Sequence[int]) -> np.ndarray:
        """Returns the natural logarithm of each token's probability after the prompt, float32 [tokens].

        Raises:
            ForcedDecodeError: the server does not say.
        """
        ...


async def all_of(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Waits until all calls have ended, and returns their results in order. Raises the first exception, in order."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


def unforced_finding(forced: bool | None, why_not_forced: str, why_not_stepwise: str | None) -> Finding:
    """Says why outputs cannot be forced, and where expected scores come from without that.

    Args:
        forced: False if forcing was tried.
        why_not_stepwise: None if probabilities are read stepwise instead.
    """
    message = f"outputs cannot be forced ({why_not_forced}): expected scores are read token by token, at temperature 1"
    if why_not_stepwise is not None:
        message = (
            f"no expected scores: outputs cannot be forced ({why_not_forced}), and probabilities cannot be read token "
            f"by token ({why_not_stepwise}); verdicts rest on greedy answers"
        )
    if forced is not None:
        return Finding.warning("forced_decode_off", message)
    return Finding.info("no_forced_decode" if why_not_stepwise else "stepwise", message)
