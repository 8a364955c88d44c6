"""Samples side by side: one row per sample, the answers of every side in columns, and the groups it is read by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pandas as pd

Side = Literal["baseline", "candidate", "aa", "control"]


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
    answered = np.logical_and.reduce([table[f"{side}_answered"].to_numpy(dtype=bool) for side in sides])
    chosen: pd.DataFrame = table[answered]
    return chosen
