"""A set of answers to compare: those of a run, of one of its variants, or of a blessed file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from kveval.config.judge import Policy
from kveval.errors import UsageError, nearest
from kveval.judge.blessed.bless import load_blessed
from kveval.judge.policy import policy_of
from kveval.judge.questions import Questions, questions_of
from kveval.judge.run_health import load_ended_run
from kveval.run.facts import Facts


@dataclass(frozen=True, slots=True)
class AnswerSet:
    """What was asked, and what every variant answered.

    Attributes:
        name: what the user called it.
        variant: the variant to compare. None for every variant.
        has_outputs: False for a blessed file, which holds hashes of its outputs.
        records: by variant, indexed by sample_id.
        facts: by variant.
    """

    name: str
    variant: str | None
    has_outputs: bool
    questions: Questions
    records: Mapping[str, pd.DataFrame]
    facts: Mapping[str, Facts]
    policy: Policy


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
        answers = AnswerSet(text, variant, True, questions_of(run), run.records, facts, policy_of(run.manifest))
    if variant is not None and variant not in answers.records:
        raise UsageError(f"{text}: no variant {variant!r}; {nearest(variant, answers.records)}")
    return answers
