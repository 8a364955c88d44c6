"""How far the next-token distribution moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kveval.judge.comparison.scope import Level, Scope, in_scope, scopes
from kveval.judge.evidence.drift import Drift, drift_positions, ratio_to_noise, summarize
from kveval.judge.run_data import RunData
from kveval.report.section import Section
from kveval.run.manifest import VariantRun


@dataclass(frozen=True, slots=True)
class DriftRow:
    """The drift of one variant over one group of samples.

    Attributes:
        aa: the A/A run's drift over the same group. None without an A/A run that covers it.
        ratio: the variant's mean KL over the A/A run's, both over the samples that the A/A run covers.
    """

    variant: str
    scope: Scope
    drift: Drift
    aa: Drift | None
    ratio: float | None


def drift_rows(run: RunData, levels: Sequence[Level] = ("overall", "length")) -> list[DriftRow]:
    """Returns the drift of every candidate and control, by group."""
    # Numbers instead of ids: a large run has a million positions, and comparing ids as text takes most of a minute.
    haystacks = pd.Series(pd.factorize(run.samples["haystack_id"])[0])
    noise = _numbered_positions(run, run.aa) if run.aa else None
    rows = []
    for variant in run.manifest.variants.values():
        if variant.role in ("baseline", "aa"):
            continue
        positions = _numbered_positions(run, variant)
        for group in scopes(run.samples, *levels):
            of_group = run.samples.index.isin(in_scope(run.samples, group).index)
            drift = summarize(_of(positions, of_group), haystacks)
            if drift is not None:
                rows.append(DriftRow(variant.name, group, drift, *_beside_noise(positions, noise, of_group, haystacks)))
    return rows


def _numbered_positions(run: RunData, variant: VariantRun) -> pd.DataFrame:
    """Returns `drift_positions` of every sample, with the row of the sample as sample_id."""
    baseline = run.records[run.manifest.baseline]
    positions = drift_positions(baseline, run.records[variant.name], run.samples.index)
    return positions.assign(sample_id=run.samples.index.get_indexer(pd.Index(positions["sample_id"])))


def _of(positions: pd.DataFrame, chosen: NDArray[np.bool_]) -> pd.DataFrame:
    """Returns the positions of the samples for which `chosen`, bool [samples], is true."""
    of_chosen: pd.DataFrame = positions[chosen[positions["sample_id"].to_numpy(dtype=np.intp)]]
    return of_chosen


def _beside_noise(
    positions: pd.DataFrame, noise: pd.DataFrame | None, chosen: NDArray[np.bool_], haystacks: pd.Series
) -> tuple[Drift | None, float | None]:
    """Returns the A/A drift of the chosen samples, and the variant's ratio to it."""
    if noise is None:
        return None, None
    of_group = _of(noise, chosen)
    covered = np.zeros(len(chosen), dtype=bool)
    covered[of_group["sample_id"].to_numpy(dtype=np.intp)] = True
    aa = summarize(of_group, haystacks)
    return aa, ratio_to_noise(summarize(_of(positions, covered), haystacks), aa)


SECTION = Section("Drift of the next-token distribution", 42, lambda run, _: drift_rows(run) or None, part_of="noise")
