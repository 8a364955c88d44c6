"""Compares two sets of answers, variant by variant: those of a run, of one of its variants, or of a blessed file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kveval.config.judge import Policy
from kveval.errors import IncomparableError, UsageError, nearest
from kveval.judge.blessed.bless import digested, load_blessed
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.judgement import judge_pairs, judge_run
from kveval.judge.comparison.pairing import VariantPair, pair
from kveval.judge.questions import Questions, differing_questions, differing_scorers, questions_of
from kveval.judge.run_data import load_ended_run, policy_of
from kveval.judge.trust.find import void_of
from kveval.judge.trust.problem import Problem
from kveval.run.facts import VOLATILE_FACTS, Facts


@dataclass(frozen=True, slots=True)
class AnswerSet:
    """What was asked, and what every variant answered.

    Attributes:
        name: what the user called it.
        variant: the variant to compare. None for every variant.
        has_outputs: False for a blessed file, which holds hashes of its outputs.
        problems: what broke while a run was measured. None of a blessed file: nobody blesses a broken run.
    """

    name: str
    variant: str | None
    has_outputs: bool
    questions: Questions
    records: Mapping[str, pd.DataFrame]
    facts: Mapping[str, Facts]
    policy: Policy
    problems: tuple[Problem, ...] = ()


def read_answer_set(text: str) -> AnswerSet:
    """Reads ``RUN``, ``RUN:VARIANT``, ``BLESSED_FILE`` or ``BLESSED_FILE:VARIANT``.

    Raises:
        RunDirectoryError, BlessedFileError: it cannot be read.
        UsageError: it has no such variant.
    """
    path, variant = Path(text), None
    if not path.exists() and ":" in text:
        before, _, variant = text.rpartition(":")
        path = Path(before)
    if path.is_file():
        blessed = load_blessed(path)
        facts = {name: one.facts for name, one in blessed.variants.items()}
        answers = AnswerSet(text, variant, False, blessed.questions, blessed.records, facts, blessed.policy)
    else:
        run = load_ended_run(path)
        facts = {name: one.facts for name, one in run.manifest.variants.items()}
        answers = AnswerSet(
            text, variant, True, questions_of(run), run.records, facts, policy_of(run.manifest), judge_run(run).problems
        )
    if variant is not None and variant not in answers.records:
        raise UsageError(f"{text}: no variant {variant!r}; {nearest(variant, answers.records)}")
    return answers


@dataclass(frozen=True, slots=True)
class VariantDiff:
    """Compares one variant of each side: the rows of all scopes, and the facts that differ, with both values.

    `problem` makes the answers of one side worthless. None if nothing does.
    """

    first: str
    second: str
    emulated: tuple[bool, bool]
    comparisons: tuple[Comparison, ...]
    changed_facts: Mapping[str, tuple[Any, Any]]
    problem: Problem | None


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
    broken = [void_of(first.problems, pair.against) or void_of(second.problems, pair.variant) for pair in compared]
    judged = judge_pairs(zip(compared, broken, strict=True), second.policy)
    return [
        VariantDiff(
            ours, theirs, (first.facts[ours].is_emulated, second.facts[theirs].is_emulated),
            tuple(row for row in judged if (row.against, row.variant) == (ours, theirs)),
            _changed_facts(first.facts[ours], second.facts[theirs]),
            problem,
        )
        for (ours, theirs), problem in zip(pairs, broken, strict=True)
    ]  # fmt: skip


def _records(answers: AnswerSet, variant: str, whole: bool) -> pd.DataFrame:
    """Returns the records of `variant`, with hashes as outputs if the other side has no outputs."""
    records = answers.records[variant]
    return digested(records) if answers.has_outputs and not whole else records


def _changed_facts(first: Facts, second: Facts) -> dict[str, tuple[Any, Any]]:
    names = sorted(Facts.model_fields.keys() - VOLATILE_FACTS)
    sides = {name: (getattr(first, name), getattr(second, name)) for name in names}
    return {name: (before, after) for name, (before, after) in sides.items() if before != after}
