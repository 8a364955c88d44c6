"""Compares two sets of answers, variant by variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kveval.errors import IncomparableError, UsageError, nearest
from kveval.judge.blessed.bless import VOLATILE_FACTS, digested
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.judgement import judge_pairs
from kveval.judge.comparison.pairing import pair
from kveval.judge.comparison.variant_pair import VariantPair
from kveval.judge.diff.answer_set import AnswerSet
from kveval.judge.questions import differing_questions, differing_scorers
from kveval.run.facts import Facts


@dataclass(frozen=True, slots=True)
class VariantDiff:
    """Compares one variant of each side.

    Attributes:
        emulated: whether each side is emulated.
        comparisons: the rows of all scopes.
        changed_facts: facts of the engine that differ, with both values.
    """

    first: str
    second: str
    emulated: tuple[bool, bool]
    comparisons: tuple[Comparison, ...]
    changed_facts: Mapping[str, tuple[Any, Any]]


def diff_answers(first: AnswerSet, second: AnswerSet) -> list[VariantDiff]:
    """Compares `second` with `first`: the chosen variants, or every variant that both have.

    Holm corrects over all of them together. The policy is that of `second`.

    Raises:
        IncomparableError: the two asked different questions, or have no variant in common.
        UsageError: one has no such variant.
    """
    asked = first.questions, second.questions
    differing = differing_questions(*asked) or differing_scorers(*asked)
    if differing:
        raise IncomparableError(f"{first.name} and {second.name}: {differing}")
    if first.variant or second.variant:
        pairs = [(first.variant or str(second.variant), second.variant or str(first.variant))]
    else:
        pairs = [(name, name) for name in first.records if name in second.records]
    for name, answers in ((pairs[0][0], first), (pairs[0][1], second)) if pairs else ():
        if name not in answers.records:
            raise UsageError(f"{answers.name}: no variant {name!r}; {nearest(name, answers.records)}")
    if not pairs:
        raise IncomparableError(
            f"{first.name} and {second.name}: have no variant in common; use RUN:VARIANT to name one of each"
        )
    whole = first.has_outputs and second.has_outputs
    compared = [
        VariantPair(
            theirs, ours,
            pair(
                second.questions.samples,
                {"baseline": _records(first, ours, whole), "candidate": _records(second, theirs, whole)},
            ),
        )
        for ours, theirs in pairs
    ]  # fmt: skip
    judged = judge_pairs(compared, second.policy)
    return [
        VariantDiff(
            ours, theirs, (_emulated(first, ours), _emulated(second, theirs)),
            tuple(row for row in judged if (row.against, row.variant) == (ours, theirs)),
            _changed_facts(first.facts[ours], second.facts[theirs]),
        )
        for ours, theirs in pairs
    ]  # fmt: skip


def _records(answers: AnswerSet, variant: str, whole: bool) -> pd.DataFrame:
    """Returns the records of `variant`, with hashes as outputs if the other side has no outputs."""
    records = answers.records[variant]
    return digested(records) if answers.has_outputs and not whole else records


def _emulated(answers: AnswerSet, variant: str) -> bool:
    return answers.facts[variant].is_emulated


def _changed_facts(first: Facts, second: Facts) -> dict[str, tuple[Any, Any]]:
    names = sorted(Facts.model_fields.keys() - VOLATILE_FACTS)
    sides = {name: (getattr(first, name), getattr(second, name)) for name in names}
    return {name: (before, after) for name, (before, after) in sides.items() if before != after}
