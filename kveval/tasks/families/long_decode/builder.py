"""Long outputs that can be checked position by position: copy a slice of a list, or change every entry of it.

The slices asked for are planted in a ledger that looks the same all over. A few slices overlap in one stretch of the
list, so that long slices and many questions fit short contexts too; no two begin at the same entry.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from kveval.errors import ConfigError
from kveval.tasks.assembly.draws import draw_names
from kveval.tasks.assembly.filler import Cut
from kveval.tasks.assembly.haystack import Haystack, Needle, Question, depths_percent
from kveval.tasks.assembly.parameters import Parameters
from kveval.tasks.dataset import HaystackDataset
from kveval.tasks.families.long_decode.ledger import Ledger, draw_number, entry
from kveval.tasks.scoring.text import answer_of

SLICES_A_STRETCH = 5
_FEWEST_ITEMS = 16
_QUARTERS = 4
# A name of more words than two, a sign or decimals make another entry, not none.
_ENTRY = re.compile(
    r"(?<!\w)([^\W\d_]+(?:[-‐‑][^\W\d_]+)+)[^\w\n]{1,8}?((?:(?<=[\s:=])[-−])?\d+(?:,\d{3})*(?:\.\d+)?)(?![^\W_])"
)
_BETWEEN_COLUMNS = re.compile(r"[ \t]+")
# {"name": "amber-fox", "number": 4821}
_BETWEEN_KEYS = re.compile(r"\"\s*,\s*\"\w+\"\s*:\s*\"?(?=[-−]?\d)")

Entry = tuple[str, str]


@dataclass(frozen=True)
class Slices(Parameters):
    """Stretches of a ledger and the slices of them that are asked for. Subclasses say what is to be written.

    Attributes:
        items: entries of a slice, from 16; the output budget must have room for them.
    """

    items: int = 40

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        if self.items < _FEWEST_ITEMS:
            raise ConfigError(f"items={self.items}; allowed: from {_FEWEST_ITEMS}")
        stretches = -(-len(numbers) // SLICES_A_STRETCH)
        step = self.items // 8
        starts = _starts(len(numbers), stretches, step)
        lengths = [own[-1] + self.items for own in starts]
        names = iter(draw_names(sum(lengths), rng))
        needles: list[Needle] = []
        questions: list[Question] = []
        for own, length, depth in zip(starts, lengths, depths_percent(stretches, depth_shift), strict=True):
            entries = [(next(names), draw_number(rng)) for _ in range(length)]
            for start, past in zip(own, [*own[1:], length], strict=True):
                questions.append(self._question(entries[start : start + self.items], len(needles), rng))
                text = "\n".join(entry(*each) for each in entries[start:past])
                needles.append(Needle(text, depth, lead="\n"))
        forbidden = frozenset(line.split(":")[0] for needle in needles for line in needle.text.split("\n"))
        return Haystack(needles, rng.sample(questions, len(questions)), forbidden, _LEDGER, Cut.PIECE)

    def _question(self, entries: Sequence[Entry], needle: int, rng: random.Random) -> Question:
        verb, how, written = self.asked(rng)
        first, last = entries[0][0], entries[-1][0]
        return Question(
            {
                "question": f"{verb} the {len(entries)} entries of the list from {first} to {last}, in their order, "
                f"one entry a line{how}. Write nothing else."
            },
            tuple(entry(*written(each)) for each in entries),
            (needle,),
        )

    def asked(self, rng: random.Random) -> tuple[str, str, Callable[[Entry], Entry]]:
        """The verb of the question, how entries are to be changed, and what is to be written for an entry."""
        raise NotImplementedError


class Recital(Slices):
    """Entries copied as they are."""

    def asked(self, rng: random.Random) -> tuple[str, str, Callable[[Entry], Entry]]:  # noqa: ARG002 (no choice)
        return "Copy", "", lambda each: each


class Transformation(Slices):
    """Entries changed by one of three simple rules."""

    def asked(self, rng: random.Random) -> tuple[str, str, Callable[[Entry], Entry]]:
        rule, written = rng.choice(_RULES)
        before = ("sample-entry", "1234")
        return "Write", f", with {rule}: {entry(*before)} becomes {entry(*written(before))}", written


_RULES: tuple[tuple[str, Callable[[Entry], Entry]], ...] = (
    ("the two words of every name swapped", lambda each: ("-".join(reversed(each[0].split("-"))), each[1])),
    ("the digits of every number in reverse", lambda each: (each[0], each[1][::-1])),
    ("every number increased by one", lambda each: (each[0], str(int(each[1]) + 1))),
)


def _starts(slices: int, stretches: int, step: int) -> list[list[int]]:
    """Where the slices of each stretch begin in it."""
    bounds = [k * slices // stretches for k in range(stretches + 1)]
    return [[step * i for i in range(past - first)] for first, past in pairwise(bounds)]


def entries_of(text: str) -> list[Entry]:
    """Entries of an output in their order: a hyphenated name and a number on one line, whatever is around them."""
    plain = _BETWEEN_KEYS.sub(": ", _BETWEEN_COLUMNS.sub(" ", text))
    return [(re.sub("[‐‑]", "-", name).lower(), number.replace(",", "")) for name, number in _ENTRY.findall(plain)]


def entries_in_order(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """How far an output goes before its first error, and how right each quarter of it is.

    ``score``
        decides: entries before the first wrong, missing or surplus one, as a share of the asked. What is written
        after the last asked entry does not count.
    ``score_q1`` to ``score_q4``
        share of each quarter of the asked entries that the output has in order, wherever: after one skipped entry the
        rest is still right. Falling from q1 to q4, they show error that accumulates.
    ``stopped``
        whether no entry follows after as many as were asked.

    Args:
        doc: ``answers``, the entries to be written.
        results: one output text.
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


_LEDGER = Ledger()
recite_pairs = HaystackDataset(Recital)
transform_list = HaystackDataset(Transformation)
