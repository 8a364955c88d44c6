"""Scores a long list entry by entry, in its order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from kveval.tasks.scoring.numbers import by_value
from kveval.tasks.scoring.reasoning import answer_of
from kveval.tasks.scoring.text import Normalizer

NORMALIZER = Normalizer()

_QUARTERS = 4
# A name of more than two words, a sign or decimals make a different entry, so they belong to what is matched.
_ENTRY = re.compile(
    r"(?<!\w)(?<![^\W_]-)([^\W\d_]++(?:-[^\W\d_]++)++)[^\w\n]{1,8}?((?:(?<=[\s:=])-)?\d+(?:\.\d+)?)(?![^\W_])"
)
# A name and its number on lines of their own.
_BETWEEN_LINES = re.compile(
    r"(?<=\n)([^\w\n]*[^\W\d_]++(?:-[^\W\d_]++)++[^\w\n]*)\n+[^\S\n]*[*_`]*(-?\d[\d.,]*)(?=[^\w\n]*(?:\n|\Z))"
)
_BETWEEN_COLUMNS = re.compile(r"[ \t]+")
# {"name": "amber-fox", "number": 4821}
_BETWEEN_KEYS = re.compile(r"\"\s*,\s*\"\w+\"\s*:\s*\"?(?=-?\d)")


def entries_of(text: str) -> list[tuple[str, str]]:
    """Returns the entries of an output in their order: a hyphenated name and a number, on one line or on two in turn.

    Numbering, markdown, tables and JSON around an entry make no difference.
    """
    plain = _BETWEEN_LINES.sub(r"\1 \2", f"\n{NORMALIZER.plain(text)}")
    plain = _BETWEEN_KEYS.sub(": ", _BETWEEN_COLUMNS.sub(" ", plain))
    return [(name, by_value(number)) for name, number in _ENTRY.findall(plain)]


def entries_in_order(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Measures how far an output goes before its first error, and how right each quarter of it is.

    ``score``
        decides: the share of the asked entries before the first wrong, missing or surplus one. Anything written after
        the last asked entry does not count.
    ``score_q1`` to ``score_q4``
        share of each quarter of the asked entries that the output has in order, wherever they stand: after one skipped
        entry the rest is still right. A fall from q1 to q4 shows an error that accumulates.
    ``stopped``
        1 when the output has no more entries than were asked for.

    Args:
        doc: ``answers``, the entries to be written.
    """
    asked = [each for answer in doc["answers"] for each in entries_of(answer)]
    given = entries_of(answer_of(results[0]))
    right = next((i for i, pair in enumerate(zip(asked, given, strict=False)) if pair[0] != pair[1]), None)
    before_error = min(len(asked), len(given)) if right is None else right
    matched = {
        block.a + i
        for block in SequenceMatcher(None, asked, given[: 2 * len(asked)], autojunk=False).get_matching_blocks()
        for i in range(block.size)
    }
    bounds = [k * len(asked) // _QUARTERS for k in range(_QUARTERS + 1)]
    quarters = [range(first, past) for first, past in pairwise(bounds)]
    return {
        "score": before_error / len(asked),
        **{f"score_q{k}": len(matched.intersection(own)) / len(own) for k, own in enumerate(quarters, 1)},
        "stopped": float(len(given) <= len(asked)),
    }
