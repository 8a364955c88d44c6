"""Balances the cost of another context against the cost of another question."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special


@dataclass(frozen=True, slots=True)
class Clustering:
    """How alike the questions of one haystack are, and how many haystacks a verdict needs.

    The defaults are those of a model of which nothing is known, at 95%. Ten questions of this correlation have a design
    effect of 1.45. What was measured on needles is 0.9 to 1.1.

    Attributes:
        correlation: of the differences of two questions about one haystack, from 0 to below 1.
        source: where the correlation comes from, in words.
        fewest_contexts: without which no verdict is possible.
        confidence: of the verdicts.
    """

    correlation: float = 0.05
    source: str = "a careful default"
    fewest_contexts: int = 6
    confidence: float = 0.95


def time_for_certainty(questions: int, prefill: float, clustering: Clustering, samples: int) -> float:
    """Returns the time that an interval of given width takes, as a multiple of the least unit: smaller is better.

    ``t^2 (1 + (m - 1) rho) (c / m + 1)``: the squared half width of a mean of `samples` questions, times their cost,
    for m questions per haystack, correlation rho and a prefill that costs as much as c questions. Without t, which
    tells that few haystacks know little of their own error, its least value is at ``m = sqrt(c (1 - rho) / rho)``:
    the optimum of two-stage cluster sampling (Cochran, "Sampling Techniques", 3rd edition 1977, section 10.6).

    Args:
        prefill: what a prefill costs, in questions.
    """
    contexts = math.ceil(samples / questions)
    t = float(special.stdtrit(max(1, contexts - 1), 0.5 + clustering.confidence / 2))
    return t**2 * (1 + (questions - 1) * clustering.correlation) * (prefill / questions + 1)


def balanced(prefill: float, clustering: Clustering, samples: int) -> int:
    """Returns the number of questions per haystack with the least `time_for_certainty`.

    It leaves as many haystacks as a verdict needs, if there are so many samples.
    """
    most = most_questions(samples, clustering)
    return min(range(1, most + 1), key=lambda m: time_for_certainty(m, prefill, clustering, samples))


def most_questions(samples: int, clustering: Clustering) -> int:
    """Returns the most questions per haystack that leave as many haystacks as a verdict needs, at least 1."""
    most = max(1, samples // clustering.fewest_contexts)
    while most > 1 and math.ceil(samples / most) < clustering.fewest_contexts:
        most -= 1
    return most
