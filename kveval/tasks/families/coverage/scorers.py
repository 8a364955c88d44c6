"""Counts the asked decisions that an output tells, and the ones it should not tell.

A decision is *found* when the output names its project and its amount together. Of the planted names and amounts, in
the order of the output, a name and an amount next to each other make a pair: "Amber Falcon school: 48,250" or "48,250
for the Amber Falcon school". Several names and as many amounts after them pair in their order: "Amber Falcon and Brave
Otter for 48,250 and 12,345". Pairs within a line or sentence come first, then pairs of what is left. What is denied is
left out. All other words neither help nor hurt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kveval.tasks.scoring.numbers import LONG_NUMBER_DIGITS
from kveval.tasks.scoring.reasoning import answer_of
from kveval.tasks.scoring.text import VALUES
from kveval.tasks.scoring.wording.denial import without_denied

NORMALIZER = VALUES
_SENTENCE_END = re.compile(r"[\n;]|(?<=[.!?])\s")


class _Mention(NamedTuple):
    """A planted name or amount in an output; `decision` is an index into the asked decisions and then the others."""

    kind: str
    decision: int


def decisions_covered(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Returns metrics in [0, 1], higher is better.

    ``recall``
        share of the asked decisions that are found.
    ``precision``
        found / (found + false). False are decisions that were not asked for, amounts beside another's project, and
        numbers of five digits or more that were never decided. The sum of the asked amounts is not false.
    ``score``
        decides: recall * precision. It is 1 only when everything is found and nothing else is claimed.

    Args:
        doc: ``question``, ``decisions`` and ``other_decisions``, lists of ``name`` and ``amount``.
    """
    asked, others = doc["decisions"], doc["other_decisions"]
    answer = without_denied(answer_of(results[0]))
    sentences = [_mentions(NORMALIZER.words(sentence), [*asked, *others]) for sentence in _SENTENCE_END.split(answer)]
    mentions = [mention for sentence in sentences for mention in sentence]
    pairs, left_over = _paired(sentences)
    pairs += _paired([left_over])[0]
    mixed = {name for name, amount in pairs if name != amount}
    found = {name for name, amount in pairs if name == amount and name < len(asked)} - mixed
    unasked = {mention.decision for mention in mentions if mention.decision >= len(asked)}
    wrong = len(unasked | mixed) + len(_invented(NORMALIZER.words(answer), doc))
    recall = len(found) / len(asked)
    precision = len(found) / (len(found) + wrong) if found else 0.0
    return {"score": recall * precision, "recall": recall, "precision": precision}


def _mentions(words: Sequence[str], decisions: Sequence[Mapping[str, str]]) -> list[_Mention]:
    """Returns the planted names and amounts in the order of the output; one that repeats at once counts once."""
    sought = [
        (tuple(NORMALIZER.words(decision[kind])), _Mention(kind, i))
        for i, decision in enumerate(decisions)
        for kind in ("name", "amount")
    ]
    mentions: list[_Mention] = []
    for place in range(len(words)):
        for form, mention in sought:
            if tuple(words[place : place + len(form)]) == form and mentions[-1:] != [mention]:
                mentions.append(mention)
    return mentions


def _paired(sentences: Sequence[Sequence[_Mention]]) -> tuple[list[tuple[int, int]], list[_Mention]]:
    """Returns the pairs within each sentence (decision of the name, decision of the amount), and what is left."""
    pairs: list[tuple[int, int]] = []
    alone: list[_Mention] = []
    for sentence in sentences:
        half = len(sentence) // 2
        kinds = [mention.kind for mention in sentence]
        if half > 1 and kinds in (["name"] * half + ["amount"] * half, ["amount"] * half + ["name"] * half):
            names, amounts = sorted((sentence[:half], sentence[half:]), key=lambda part: part[0].kind, reverse=True)
            pairs += [(name.decision, amount.decision) for name, amount in zip(names, amounts, strict=True)]
            continue
        rest = list(reversed(sentence))
        while rest:
            mention = rest.pop()
            if rest and rest[-1].kind != mention.kind:
                both = {either.kind: either.decision for either in (mention, rest.pop())}
                pairs.append((both["name"], both["amount"]))
            else:
                alone.append(mention)
    return pairs, alone


def _invented(words: Sequence[str], doc: Mapping[str, Any]) -> set[str]:
    planted = [decision["amount"] for decision in (*doc["decisions"], *doc["other_decisions"])]
    known = {word for text in (doc["question"], *planted) for word in NORMALIZER.words(text)}
    known.add(str(sum(int(decision["amount"].replace(",", "")) for decision in doc["decisions"])))
    return {word for word in words if word.isdecimal() and len(word) >= LONG_NUMBER_DIGITS and word not in known}
