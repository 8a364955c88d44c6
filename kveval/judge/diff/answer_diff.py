"""Compares two sets of answers, variant by variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kveval.config.judge import Policy
from kveval.errors import IncomparableError, UsageError, nearest
from kveval.judge.blessed.bless import VOLATILE_FACTS, digested
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.judgement import judge_pairs
from kveval.judge.comparison.pairing import pair
from kveval.judge.comparison.variant_pair import VariantPair
from kveval.judge.diff.answer_set import AnswerSet
from kveval.run.facts import Facts


@dataclass(frozen=True, slots=True)
class VariantDiff:
    """One variant of each side, with all rows of their comparison."""

    first: str
    second: str
    emulated: tuple[bool, bool]
    comparisons: tuple[Comparison, ...]
    changed_facts: Mapping[str, tuple[Any, Any]]


def diff_answers(first: AnswerSet, second: AnswerSet, policy: Policy | None = None) -> list[VariantDiff]:
    """`second` against `first`: the chosen variants, or every variant both have; Holm over all of them together.

    Raises:
        IncomparableError: they asked different samples or in another way, or share no variant.
    """
    _check_same_questions(first, second)
    if first.variant or second.variant:
        pairs = [(first.variant or str(second.variant), second.variant or str(first.variant))]
    else:
        pairs = [(name, name) for name in first.records if name in second.records]
    for name, answers in ((pairs[0][0], first), (pairs[0][1], second)) if pairs else ():
        if name not in answers.records:
            raise UsageError(f"{answers.name}: no variant {name!r}; {nearest(name, answers.records)}")
    if not pairs:
        raise IncomparableError(f"{first.name} and {second.name}: have no variant in common; name them as RUN:VARIANT")
    whole = first.has_outputs and second.has_outputs
    compared = [
        VariantPair(
            theirs, ours,
            pair(
                second.samples,
                {"baseline": _records(first, ours, whole), "candidate": _records(second, theirs, whole)},
            ),
        )
        for ours, theirs in pairs
    ]  # fmt: skip
    judged = judge_pairs(compared, policy or second.policy)
    return [
        VariantDiff(
            ours, theirs, (_emulated(first, ours), _emulated(second, theirs)),
            tuple(row for row in judged if (row.against, row.variant) == (ours, theirs)),
            _changed_facts(first.facts[ours], second.facts[theirs]),
        )
        for ours, theirs in pairs
    ]  # fmt: skip


def _check_same_questions(first: AnswerSet, second: AnswerSet) -> None:
    names = f"{first.name} and {second.name}"
    tasks = set(first.samples["task"]) ^ set(second.samples["task"])
    if tasks:
        raise IncomparableError(f"{names}: only one of them asked task {min(tasks)!r}")
    alone = first.samples.index.symmetric_difference(second.samples.index)
    if len(alone):
        raise IncomparableError(
            f"{names}: {len(alone)} samples were asked in only one of them; other prompts, references, seeds or "
            "lengths make other samples"
        )
    if first.prompts_sha256 != second.prompts_sha256:
        raise IncomparableError(f"{names}: the prompts of the same samples differ")
    for key in sorted(first.sampling.keys() | second.sampling.keys()):
        ours, theirs = first.sampling.get(key), second.sampling.get(key)
        if ours != theirs:
            raise IncomparableError(f"{names}: sampling setting {key!r} differs: {ours!r} and {theirs!r}")


def _records(answers: AnswerSet, variant: str, whole: bool) -> pd.DataFrame:
    """With outputs that can be compared with the other side's."""
    records = answers.records[variant]
    return digested(records) if answers.has_outputs and not whole else records


def _emulated(answers: AnswerSet, variant: str) -> bool:
    return answers.facts[variant].is_emulated


def _changed_facts(first: Facts, second: Facts) -> dict[str, tuple[Any, Any]]:
    names = sorted(Facts.model_fields.keys() - VOLATILE_FACTS)
    sides = {name: (getattr(first, name), getattr(second, name)) for name in names}
    return {name: (before, after) for name, (before, after) in sides.items() if before != after}
