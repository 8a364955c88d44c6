"""Two variants to compare, with their records paired."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from kveval.judge.comparison.pairing import Side, pair
from kveval.judge.run_data import RunData
from kveval.run.manifest import VariantRun


@dataclass(frozen=True, slots=True)
class VariantPair:
    """Holds the paired records of a variant and of what it is compared with.

    Attributes:
        variant: name of the candidate's side.
        against: name of the baseline's side.
        table: as `pair` makes it.
        control: name of the emulated control, if `table` has one.
        judged: whether the comparison gets a verdict. Controls get none.
        obstacle: what rules out a pass whatever the numbers say.
    """

    variant: str
    against: str
    table: pd.DataFrame
    control: str | None = None
    judged: bool = True
    obstacle: str | None = None


def pairs_with_baseline(run: RunData) -> list[VariantPair]:
    """Pairs every variant of `run` with its baseline."""
    baseline = run.manifest.variants[run.manifest.baseline]
    found = []
    for variant in run.manifest.variants.values():
        if variant.name == baseline.name:
            continue
        control = run.variant("control", variant.name)
        found.append(
            VariantPair(
                variant.name, baseline.name, pair_variant(run, variant), control.name if control else None,
                judged=variant.role == "candidate", obstacle=incomplete_reason(variant) or incomplete_reason(baseline),
            )
        )  # fmt: skip
    return found


def pair_variant(run: RunData, variant: VariantRun) -> pd.DataFrame:
    """Pairs the baseline, `variant`, and if they exist its control and the A/A run of the baseline.

    An A/A run is paired over the samples it was asked.
    """
    sides: dict[Side, pd.DataFrame] = {
        "baseline": run.records[run.manifest.baseline],
        "candidate": run.records[variant.name],
    }
    samples = run.samples
    if variant.role == "aa" and run.manifest.aa_sample_ids is not None:
        samples = samples.loc[samples.index.isin(run.manifest.aa_sample_ids)]
    control, aa = run.variant("control", variant.name), run.variant("aa", run.manifest.baseline)
    if control:
        sides["control"] = run.records[control.name]
    if aa:
        sides["aa"] = run.records[aa.name]
    return pair(samples, sides)


def incomplete_reason(variant: VariantRun) -> str | None:
    """Returns why `variant` is not complete, and so cannot pass. None if it is complete."""
    if variant.status == "complete":
        return None
    done = {"planned": "not measured yet", "running": "not finished"}.get(variant.status, variant.status)
    return f"{variant.name} {done}" + (f": {variant.reason}" if variant.reason else "")
