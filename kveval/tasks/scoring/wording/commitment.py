"""Decides whether an answer gives a value as its answer, and not only names it."""

from __future__ import annotations

from kveval.tasks.scoring.text import Normalizer
from kveval.tasks.scoring.wording.alternatives import is_one_of_several
from kveval.tasks.scoring.wording.denial import without_denied


def gives(text: str, reference: str, normalizer: Normalizer, known: str = "") -> bool:
    """Returns whether a text names a reference, does not deny it, and does not offer another beside it.

    Args:
        known: the question, whose alternatives an answer may repeat.
    """
    claimed = without_denied(text, reference)
    return normalizer.names(claimed, reference) and not is_one_of_several(claimed, reference, normalizer, known)
