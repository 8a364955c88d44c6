"""Scores a number that was told and later changed. Numbers are read as in the needle tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kveval.tasks.families.needle.scorers import NORMALIZER, values_named
from kveval.tasks.scoring.reasoning import answer_of


def latest_value(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Returns the metrics of `values_named`, and whether the answer is out of date.

    ``stale``
        1 when the answer names the old value and not the new one.

    Args:
        doc: as in `values_named`, and ``old_value``: the value before the change, empty when there was none.
    """
    answer = answer_of(results[0])
    stale = NORMALIZER.names(answer, doc["old_value"]) and not NORMALIZER.names(answer, doc["answers"][0])
    return {**values_named(doc, results), "stale": float(stale)}
