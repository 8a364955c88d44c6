"""Samples side by side: one row per sample, the answers of every side in columns, and the groups it is read by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

Side = Literal["baseline", "candidate", "aa", "control"]
Level = Literal["overall", "length", "family", "cell"]
LEVELS: dict[Level, list[str]] = {
    "overall": [],
    "length": ["context_length"],
    "family": ["family"],
    "cell": ["context_length", "family", "task"],
}


@dataclass(frozen=True, slots=True)
class Group:
    """The samples one comparison is about; None stands for all."""

    level: Level
    family: str | None = None
    task: str | None = None
    context_length: int | None = None

    def __str__(self) -> str:
        parts = [self.task or self.family, f"{self.context_length:,} tokens" if self.context_length else None]
        return " at ".join(part for part in parts if part) or "overall"


def pair(samples: pd.DataFrame, sides: Mapping[Side, pd.DataFrame]) -> pd.DataFrame:
    """Joins the records of every side to `samples` by sample_id.

    Args:
        samples: `Run.samples`.
        sides: records as in `Run.records`, "baseline" and "candidate" among them.

    Returns:
        [samples] with the columns of `samples`, ``scored`` (`has_right_answer`) and, for every side, ``SIDE_answered``
        (False for an engine error or no record), ``SIDE_outcome`` ("missing" without a record), ``SIDE_score`` in
        [0, 1], ``SIDE_correct``; for all sides but the baseline ``SIDE_identical``: the output equals the baseline's,
        character by character.
    """
    table = samples.assign(scored=has_right_answer(samples))
    outputs: dict[Side, pd.Series] = {}
    for side, records in sides.items():
        aligned = records.reindex(samples.index)
        outcome = aligned["outcome"].fillna("missing").astype(str)
        table[f"{side}_outcome"] = outcome
        table[f"{side}_answered"] = ~outcome.isin(["missing", "engine_error"])
        table[f"{side}_score"] = aligned["score"].fillna(0.0).astype(float)
        table[f"{side}_correct"] = outcome == "correct"
        outputs[side] = aligned["output"]
    for side in sides:
        if side != "baseline":
            table[f"{side}_identical"] = (outputs[side] == outputs["baseline"]).to_numpy(dtype=bool)
    return table


def has_right_answer(samples: pd.DataFrame) -> np.ndarray:
    """bool [samples]. One without (a prompt of one's own with scorer none) shows changed outputs, never a score."""
    return np.array([doc.get("scored", True) for doc in samples["doc"]], dtype=bool)


def answered_by(table: pd.DataFrame, *sides: Side) -> pd.DataFrame:
    """Rows that all `sides` answered."""
    return table[np.logical_and.reduce([table[f"{side}_answered"].to_numpy(dtype=bool) for side in sides])]


def groups(samples: pd.DataFrame) -> Iterator[Group]:
    """Overall, then every length, family and cell, each in order."""
    for level, columns in LEVELS.items():
        if not columns:
            yield Group(level)
            continue
        for row in samples[columns].drop_duplicates().sort_values(columns).to_dict("records"):
            yield Group(level, **{str(key): value for key, value in row.items()})


def members(samples: pd.DataFrame, group: Group) -> pd.DataFrame:
    """Rows of `samples` that `group` is about."""
    chosen = np.ones(len(samples), dtype=bool)
    for column in LEVELS[group.level]:
        chosen &= (samples[column] == getattr(group, column)).to_numpy(dtype=bool)
    return samples[chosen]
