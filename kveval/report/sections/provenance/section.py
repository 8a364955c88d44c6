"""What every engine was really doing, and how to repeat the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kveval.judge.run_data import RunData
from kveval.report.section import Section
from kveval.run.facts import VOLATILE_FACTS, Facts

_CAPACITY_FACTS = {"kv_capacity_tokens", "kv_capacity_ratio"}


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact of one variant, and whether it differs from the baseline's."""

    value: Any
    differs: bool
    note: str | None = None


def facts_table(run: RunData) -> list[tuple[str, list[Fact]]]:
    """Returns (name of the fact, its value for every variant), the baseline's first. Leaves out unknown facts."""
    variants = run.baseline_first
    reference = variants[0].facts
    table = []
    for key in Facts.model_fields:
        if key == "declared" or all(getattr(variant.facts, key) in (None, []) for variant in variants):
            continue
        row = []
        for variant in variants:
            facts = variant.facts
            value = getattr(facts, key)
            differs = value is not None and key not in VOLATILE_FACTS and value != getattr(reference, key)
            saves_nothing = key in _CAPACITY_FACTS and facts.is_emulated
            note = "emulated: no memory saved" if saves_nothing else "declared" if facts.is_declared(key) else None
            row.append(Fact(", ".join(map(str, value)) if isinstance(value, list) else value, differs, note))
        table.append((key, row))
    return table


SECTION = Section("Provenance", 60, lambda run, _: facts_table(run))
