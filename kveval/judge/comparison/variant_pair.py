"""Two variants to compare, with their records paired."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from kveval.judge.comparison.pairing import Side, pair
from kveval.judge.run_data import RunData
from kveval.run.manifest import VariantRun


@dataclass(frozen=True, slots=True)
class VariantPair:
    """Two sides to compare at every level.

    Attributes:
        variant: the candidate's side.
        against: names the baseline's side.
        table: as `pair` makes it.
        control: name of the side "control" in `table`.
        judged: whether it gets verdicts; controls do not.
        obstacle: why it cannot pass whatever the numbers say.
    """

    variant: str
    against: str
    table: pd.DataFrame
    control: str | None = None
    judged: bool = True
    obstacle: str | None = None


def pairs_with_baseline(run: RunData) -> list[VariantPair]:
    """Every variant of `run` against its baseline."""
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
    """`pair` of the baseline, `variant`, its control and the baseline's A/A run, those that exist.

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
    """Why nothing of `variant` can carry a pass; None when it ran to its end."""
    if variant.status == "complete":
        return None
    done = {"planned": "not measured yet", "running": "not finished"}.get(variant.status, variant.status)
    return f"{variant.name} {done}" + (f": {variant.reason}" if variant.reason else "")
