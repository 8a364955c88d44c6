"""How far the next-token distribution moved."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from kveval.judge.comparison.scope import Level, in_scope, scopes
from kveval.judge.evidence.drift import Drift, drift_positions, ratio_to_noise, summarize
from kveval.judge.run_data import RunData
from kveval.report.section import Section
from kveval.run.manifest import VariantRun


def drift_table(run: RunData, levels: tuple[Level, ...] = ("overall", "length")) -> list[dict[str, Any]]:
    """Drift of every variant but the baseline, by group, beside the A/A run's on the same samples."""
    aa = run.variant("aa", run.manifest.baseline)
    # Samples as numbers: a large run has a million positions, and comparing ids as text takes most of a minute.
    haystacks = pd.Series(pd.factorize(run.samples["haystack_id"])[0])
    noise = _numbered_positions(run, aa) if aa else None
    rows = []
    for variant in run.manifest.variants.values():
        if variant.role in ("baseline", "aa"):
            continue
        positions = _numbered_positions(run, variant)
        for group in scopes(run.samples):
            if group.level not in levels:
                continue
            of_group = run.samples.index.isin(in_scope(run.samples, group).index)
            drift = summarize(_of(positions, of_group), haystacks)
            if drift is None:
                continue
            beside, ratio = _beside_noise(positions, noise, of_group, haystacks)
            rows.append(
                {
                    "variant": variant.name,
                    "level": group.level,
                    "task": group.task,
                    "context_length": group.context_length,
                    **asdict(drift),
                    "aa": asdict(beside) if beside else None,
                    "ratio": ratio,
                }
            )
    return rows


def _numbered_positions(run: RunData, variant: VariantRun) -> pd.DataFrame:
    """`drift_positions` of every sample; sample_id is the row of the sample."""
    baseline = run.records[run.manifest.baseline]
    positions = drift_positions(baseline, run.records[variant.name], run.samples.index)
    return positions.assign(sample_id=run.samples.index.get_indexer(pd.Index(positions["sample_id"])))


def _of(positions: pd.DataFrame, chosen: np.ndarray) -> pd.DataFrame:
    """Positions of the samples for which `chosen`, bool [samples], is true."""
    found: pd.DataFrame = positions[chosen[positions["sample_id"].to_numpy(dtype=np.intp)]]
    return found


def _beside_noise(
    positions: pd.DataFrame, noise: pd.DataFrame | None, chosen: np.ndarray, haystacks: pd.Series
) -> tuple[Drift | None, float | None]:
    """The A/A drift of the chosen samples, and the ratio to it of the variant's on the samples it covers."""
    if noise is None:
        return None, None
    of_group = _of(noise, chosen)
    covered = np.zeros(len(chosen), dtype=bool)
    covered[of_group["sample_id"].to_numpy(dtype=np.intp)] = True
    beside = summarize(of_group, haystacks)
    return beside, ratio_to_noise(summarize(_of(positions, covered), haystacks), beside)


SECTION = Section("Drift of the next-token distribution", 42, lambda run, _: drift_table(run) or None, part_of="noise")
