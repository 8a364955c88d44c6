"""Scores a chain of steps: how far it is right, each quarter of it, and its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from kveval.tasks.scoring.reasoning import answer_of
from kveval.tasks.scoring.wording.steps import steps_in

_QUARTERS = 4


def steps_in_order(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Measures how far a chain goes before its first error.

    ``score``
        decides: the share of the steps before the first one that is wrong or missing.
    ``answer``
        1 when the last step is right, whatever stands before it.
    ``score_q1`` to ``score_q4``
        share of right steps in each quarter of the chain.
    """
    right = [step.is_right for step in steps_in(doc["answers"], answer_of(results[0]))]
    before_error = next((k for k, one in enumerate(right) if not one), len(right))
    bounds = [k * len(right) // _QUARTERS for k in range(_QUARTERS + 1)]
    quarters = [right[first:past] for first, past in pairwise(bounds)]
    return {
        "score": before_error / len(right),
        "answer": float(right[-1]),
        **{f"score_q{k}": sum(own) / len(own) for k, own in enumerate(quarters, 1) if own},
    }
