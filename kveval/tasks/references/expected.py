"""The score that an engine would get on average if its answers were sampled, from the probabilities of references."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kveval.tasks.references.forced import ForcedText
from kveval.tasks.references.reference import FORMAT, References, Unit

_QUARTERS = 4
_FEWEST_IN_QUARTERS = 16
_ROUNDING = 1e-3  # engines compute in float32, where the logarithm of 1 may come out above 0

CONTRAST = "contrast"
"""The part that holds the probability of the wrong answers of `References.contrast`."""


class MissingProbabilityError(ValueError):
    """A token of a reference has no probability, so there is no expected score."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected score of one sample.

    Attributes:
        score: in [0, 1].
        parts: the same of each part of the reference, in [0, 1].
    """

    score: float
    unit: Unit
    parts: Mapping[str, float]


def expected_of(
    references: References, texts: Sequence[ForcedText], logprobs: Sequence[Sequence[float] | np.ndarray]
) -> Expected:
    """Computes the expected score of one sample.

    Args:
        texts: the forced text of each of `References.all`, in order.
        logprobs: of each token of each text, the natural logarithm of the probability that the model gave it. Minus
            infinity is probability 0.

    Raises:
        MissingProbabilityError: a logprob is missing or NaN, or above 0.
    """
    probabilities = [_checked(text, values) for text, values in zip(texts, logprobs, strict=True)]
    split = len(references.alternatives)
    right, wrong = list(zip(texts, probabilities, strict=True))[:split], probabilities[split:]
    score, parts = _MEASURES[references.unit](right)
    if wrong:
        of_wrong = list(zip(texts[split:], wrong, strict=True))
        parts[CONTRAST] = _MEASURES[references.unit](of_wrong)[0]
    return Expected(score, references.unit, parts)


Forced = tuple[ForcedText, np.ndarray]
"""A forced text and the logprobs of its tokens, float64 [tokens]."""


def _checked(text: ForcedText, logprobs: Sequence[float] | np.ndarray) -> np.ndarray:
    values = np.asarray(logprobs, np.float64)
    if values.shape != text.token_ids.shape:
        raise MissingProbabilityError(
            f"{values.size} of the {text.token_ids.size} tokens of a reference have a logprob"
        )
    if np.isnan(values).any():
        place = int(np.flatnonzero(np.isnan(values))[0])
        raise MissingProbabilityError(f"the logprob of token {place} of a reference is not a number")
    if values.size and float(values.max()) > _ROUNDING:
        raise MissingProbabilityError(f"a logprob of a reference is {float(values.max()):.3g}, which is above 0")
    return np.minimum(values, 0.0)


def _probability(right: Sequence[Forced]) -> tuple[float, dict[str, float]]:
    first, values = right[0]
    apart = _excluding_each_other(right)
    parts = {part: _product(values, _tokens_of(first, part)) for part in _parts(first)}
    if len(apart) > 1:
        for part in parts.keys() - {FORMAT}:
            parts[part] = min(math.fsum(_product(own, _tokens_of(text, part)) for text, own in apart), 1.0)
    return min(math.fsum(_product(own, _counting(text)) for text, own in apart), 1.0), parts


def _excluding_each_other(right: Sequence[Forced]) -> list[Forced]:
    """Leaves out texts that begin with another one. An output that begins with them begins with the other too."""
    ids = [text.token_ids.tobytes() for text, _ in right]
    return [
        forced
        for k, forced in enumerate(right)
        if not any(
            ids[k].startswith(other) and (len(other) < len(ids[k]) or i < k) for i, other in enumerate(ids) if i != k
        )
    ]


def _token_accuracy(right: Sequence[Forced]) -> tuple[float, dict[str, float]]:
    first, values = right[0]
    parts = {part: float(np.exp(values[_tokens_of(first, part)]).mean()) for part in _parts(first)}
    return float(np.exp(values[_counting(first)]).mean()), parts


def _entries(right: Sequence[Forced]) -> tuple[float, dict[str, float]]:
    """Counts entries before the first error. Alternatives are orders; those with the same beginning count it once."""
    found = [_beginnings(*forced) for forced in right]
    first_right = []
    for same_length in zip(*found, strict=True):
        probabilities: dict[bytes, list[float]] = {}
        for beginning, probability in same_length:
            probabilities.setdefault(beginning, []).append(probability)
        first_right.append(min(math.fsum(math.fsum(same) / len(same) for same in probabilities.values()), 1.0))
    score = math.fsum(first_right) / len(first_right)
    if len(first_right) < _FEWEST_IN_QUARTERS:
        return score, {f"entry {k}": value for k, value in enumerate(first_right, 1)}
    return score, _quarters(*right[0])


def _beginnings(text: ForcedText, values: np.ndarray) -> list[tuple[bytes, float]]:
    """Returns the tokens of the first entry, of the first two and so on, and how probable their entries are."""
    found, total = [], 0.0
    for part in _parts(text):
        tokens = _tokens_of(text, part)
        total += float(values[tokens].sum())
        found.append((text.token_ids[: tokens[-1] + 1].tobytes(), math.exp(total)))
    return found


def _quarters(text: ForcedText, values: np.ndarray) -> dict[str, float]:
    """Returns the share of each quarter before its first error. The text before a quarter is right: it is forced."""
    sums = [float(values[_tokens_of(text, part)].sum()) for part in _parts(text)]
    bounds = [k * len(sums) // _QUARTERS for k in range(_QUARTERS + 1)]
    return {
        f"q{k}": float(np.exp(np.cumsum(sums[first:past])).mean())
        for k, (first, past) in enumerate(pairwise(bounds), 1)
    }


def _parts(text: ForcedText) -> list[str]:
    """Returns the scored parts in their order."""
    return list(dict.fromkeys(part for part in text.parts if part is not None))


def _tokens_of(text: ForcedText, part: str) -> np.ndarray:
    return np.flatnonzero([own == part for own in text.parts])


def _counting(text: ForcedText) -> np.ndarray:
    return np.flatnonzero([part not in (None, FORMAT) for part in text.parts])


def _product(values: np.ndarray, tokens: np.ndarray) -> float:
    return math.exp(float(values[tokens].sum()))


_MEASURES: Mapping[Unit, Callable[[Sequence[Forced]], tuple[float, dict[str, float]]]] = {
    "probability": _probability,
    "token_accuracy": _token_accuracy,
    "entries": _entries,
}
