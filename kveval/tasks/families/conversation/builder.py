"""Plants facts that the user of a conversation tells and changes later, and asks for their last value.

Every fact is a number the user calls their own. Many turns back it is told, later it is changed, and somewhere
another person's is mentioned. Some questions ask for a fact that was told of somebody else only.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kveval.errors import ConfigError
from kveval.tasks.builders.base import ChatBuilder, Haystack, Needle, Question, depths_percent
from kveval.tasks.builders.draws import draw_numbers, is_absent
from kveval.tasks.builders.sources import Cut
from kveval.tasks.builders.turns import exchange, messages, turns
from kveval.tasks.corpora.words import GIVEN_NAMES
from kveval.tasks.dataset import HaystackDataset
from kveval.tasks.sample import Chat

THINGS = (
    "locker number", "booking number", "customer number", "gate code", "invoice number", "membership number",
    "policy number", "ticket number", "parking permit number", "library card number", "order number", "badge number",
    "account number", "tax number", "serial number", "case number", "reservation number", "alarm code",
    "voucher number", "registration number", "tracking number", "meter number", "licence number", "student number",
)  # fmt: skip
_DIGITS = 6
_TOLD = (
    "Please keep in mind that my {thing} is {value}.",
    "Before I forget it: my {thing} is {value}.",
    "For your records, my {thing} is {value}.",
)
_CHANGED = (
    "My {thing} has changed. It is {value} now.",
    "I got a new {thing} today. It is {value} from now on.",
    "Please correct my {thing}: it is {value} now.",
)
_ANOTHERS = (
    "{name} told me that {name}'s {thing} is {value}.",
    "I looked it up for {name}: the {thing} of {name} is {value}.",
    "By the way, {name}'s {thing} is {value}.",
)
_REPLIES = ("I will keep that in mind.", "Noted.", "All right, thank you.", "Thank you for telling me.")
# A fact is first told in the first 90% of the context before its update.
_LATEST_TELLING = 0.9


@dataclass(frozen=True)
class UpdatedFacts(ChatBuilder):
    """Plants a fact, its update and somebody else's fact for each question.

    Attributes:
        absent_share: share of questions about a fact that was told of somebody else only.
    """

    chat_form = "messages"

    absent_share: float = 0.0

    def most_questions(self, context_length: int) -> int:
        """Counts questions whose three facts fit into a context and leave space between them."""
        return min(max((context_length - 200) // 250, 1), len(THINGS))

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count = len(numbers)
        if count > len(THINGS):
            raise ConfigError(f"{count} questions about one conversation; use at most {len(THINGS)}")
        things = rng.sample(THINGS, count)
        people = rng.sample(GIVEN_NAMES, count)
        values = draw_numbers(3 * count, _DIGITS, rng)
        old, new, other = values[:count], values[count : 2 * count], values[2 * count :]
        depths = depths_percent(count, depth_shift)
        rng.shuffle(depths)
        needles: list[Needle] = []
        questions: list[Question] = []
        for i, number in enumerate(numbers):
            absent = is_absent(number, self.absent_share)
            say = {"thing": things[i], "name": people[i]}
            needles.append(_needle(_ANOTHERS, rng.uniform(0, 100), rng, value=other[i], **say))
            if not absent:
                needles.append(_needle(_TOLD, depths[i] * rng.uniform(0, _LATEST_TELLING), rng, value=old[i], **say))
                needles.append(_needle(_CHANGED, depths[i], rng, value=new[i], **say))
            told = {*old, *new, *other} - ({old[i], new[i]} if absent else {new[i]})
            questions.append(
                Question(
                    {
                        "question": f"What is my {things[i]} now? Answer with the number alone. If I never told you "
                        "mine, say: not stated.",
                        "old_value": "" if absent else old[i],
                    },
                    ("not stated",) if absent else (new[i],),
                    () if absent else (len(needles) - 1,),
                    tuple(sorted(told)),
                    absent=absent,
                )
            )
        return Haystack(needles, questions, frozenset((*old, *new, *other)), None, Cut.PIECE, turns)

    def chat(self, pieces: Sequence[str], fields: Mapping[str, Any]) -> Chat:
        return Chat((*messages(pieces), {"role": "user", "content": fields["question"]}))


def _needle(phrasings: Sequence[str], depth: float, rng: random.Random, **say: str) -> Needle:
    return Needle(exchange(rng.choice(phrasings).format(**say), rng.choice(_REPLIES)), depth, lead="\n\n")


fact_update = HaystackDataset(UpdatedFacts)
