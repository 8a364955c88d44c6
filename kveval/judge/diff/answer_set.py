"""Any two sides to compare: a run, one variant of it (``RUN:VARIANT``), or a blessed file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kveval.config.judge import Policy
from kveval.errors import UsageError, nearest
from kveval.judge.blessed.bless import load_blessed, prompts_sha256
from kveval.judge.policy import policy_of
from kveval.judge.run_health import load_ended_run
from kveval.run.facts import Facts


@dataclass(frozen=True, slots=True)
class AnswerSet:
    """
    Attributes:
        variant: the one chosen; None for all.
        has_outputs: whether records hold the outputs themselves, and not hashes of them.
        facts: by variant.
    """

    name: str
    variant: str | None
    has_outputs: bool
    samples: pd.DataFrame
    prompts_sha256: str
    sampling: Mapping[str, Any]
    records: Mapping[str, pd.DataFrame]
    facts: Mapping[str, Facts]
    policy: Policy


def read_answer_set(text: str) -> AnswerSet:
    """
    Raises:
        RunDirectoryError, BlessedFileError: it cannot be read.
        UsageError: it has no such variant.
    """
    path, variant = Path(text), None
    if not path.exists() and ":" in text:
        before, _, after = text.rpartition(":")
        path, variant = Path(before), after
    if path.is_file():
        blessed = load_blessed(path)
        facts = {name: one.facts for name, one in blessed.variants.items()}
        answers = AnswerSet(
            text, variant, False, blessed.samples, blessed.prompts_sha256, blessed.run.sampling, blessed.records, facts,
            blessed.policy,
        )  # fmt: skip
    else:
        run = load_ended_run(path)
        facts = {name: one.facts for name, one in run.manifest.variants.items()}
        answers = AnswerSet(
            text, variant, True, run.samples, prompts_sha256(run.samples), run.manifest.sampling, run.records, facts,
            policy_of(run.manifest),
        )  # fmt: skip
    if variant is not None and variant not in answers.records:
        raise UsageError(f"{text}: no variant {variant!r}; {nearest(variant, answers.records)}")
    return answers
