"""Any two sides to compare: a run, one variant of it (``RUN:VARIANT``), or a blessed file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kveval.config.sweep import JudgeConfig
from kveval.errors import IncomparableError, UsageError, nearest
from kveval.judge.blessed.bless import VOLATILE_FACTS, digested, load_blessed, prompts_sha256
from kveval.judge.comparison import Comparison
from kveval.judge.diff import Contest, judge_contests
from kveval.judge.pairing import pair
from kveval.judge.policy import from_values, policy_of
from kveval.judge.run_health import load_ended_run
from kveval.judge.verdicts import Policy
from kveval.run.facts import Facts


@dataclass(frozen=True, slots=True)
class Source:
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


@dataclass(frozen=True, slots=True)
class Pairing:
    """One variant of each side, with all rows of their comparison."""

    first: str
    second: str
    emulated: tuple[bool, bool]
    comparisons: tuple[Comparison, ...]
    changed_facts: Mapping[str, tuple[Any, Any]]


def read_source(text: str) -> Source:
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
        policy = from_values({key: value for key, value in blessed.policy.items() if key in JudgeConfig.model_fields})
        source = Source(
            text, variant, False, blessed.samples, blessed.prompts_sha256, blessed.run.sampling, blessed.records, facts,
            policy,
        )  # fmt: skip
    else:
        run = load_ended_run(path)
        facts = {name: one.facts for name, one in run.manifest.variants.items()}
        source = Source(
            text, variant, True, run.samples, prompts_sha256(run.samples), run.manifest.sampling, run.records, facts,
            policy_of(run.manifest),
        )  # fmt: skip
    if variant is not None and variant not in source.records:
        raise UsageError(f"{text}: no variant {variant!r}; {nearest(variant, source.records)}")
    return source


def compare_sources(first: Source, second: Source, policy: Policy | None = None) -> list[Pairing]:
    """`second` against `first`: the chosen variants, or every variant both have; Holm over all of them together.

    Raises:
        IncomparableError: they asked different samples or in another way, or share no variant.
    """
    _check_same_questions(first, second)
    if first.variant or second.variant:
        pairs = [(first.variant or str(second.variant), second.variant or str(first.variant))]
    else:
        pairs = [(name, name) for name in first.records if name in second.records]
    for name, source in ((pairs[0][0], first), (pairs[0][1], second)) if pairs else ():
        if name not in source.records:
            raise UsageError(f"{source.name}: no variant {name!r}; {nearest(name, source.records)}")
    if not pairs:
        raise IncomparableError(f"{first.name} and {second.name}: have no variant in common; name them as RUN:VARIANT")
    whole = first.has_outputs and second.has_outputs
    contests = [
        Contest(
            theirs, ours,
            pair(
                second.samples,
                {"baseline": _records(first, ours, whole), "candidate": _records(second, theirs, whole)},
            ),
        )
        for ours, theirs in pairs
    ]  # fmt: skip
    judged = judge_contests(contests, policy or second.policy)
    return [
        Pairing(
            ours, theirs, (_emulated(first, ours), _emulated(second, theirs)),
            tuple(row for row in judged if (row.against, row.variant) == (ours, theirs)),
            _changed_facts(first.facts[ours], second.facts[theirs]),
        )
        for ours, theirs in pairs
    ]  # fmt: skip


def _check_same_questions(first: Source, second: Source) -> None:
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


def _records(source: Source, variant: str, whole: bool) -> pd.DataFrame:
    """With outputs that can be compared with the other side's."""
    records = source.records[variant]
    return digested(records) if source.has_outputs and not whole else records


def _emulated(source: Source, variant: str) -> bool:
    return source.facts[variant].is_emulated


def _changed_facts(first: Facts, second: Facts) -> dict[str, tuple[Any, Any]]:
    names = sorted(Facts.model_fields.keys() - VOLATILE_FACTS)
    sides = {name: (getattr(first, name), getattr(second, name)) for name in names}
    return {name: (before, after) for name, (before, after) in sides.items() if before != after}
