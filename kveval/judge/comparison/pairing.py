"""Puts the answers of every side to one sample into one row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pandas as pd

Side = Literal["baseline", "candidate", "aa", "control"]


def pair(samples: pd.DataFrame, sides: Mapping[Side, pd.DataFrame]) -> pd.DataFrame:
    """Joins the records of every side to `samples` by sample_id.

    Args:
        samples: as in `RunData.samples`.
        sides: records as in `RunData.records`; "baseline" and "candidate" are required.

    Returns:
        One row per sample, with the columns of `samples`, ``scored`` (`has_right_answer`), and for every side
        ``SIDE_answered`` (False for an engine error or no record), ``SIDE_outcome`` ("missing" without a record),
        ``SIDE_score`` in [0, 1] and ``SIDE_correct``. All sides but the baseline also have ``SIDE_identical``: the
        output equals the baseline's, character by character.
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
    """Returns bool [samples]. A prompt of the user with ``scorer: none`` has no right answer, and so no score."""
    return np.array([doc.get("scored", True) for doc in samples["doc"]], dtype=bool)


def answered_by(table: pd.DataFrame, *sides: Side) -> pd.DataFrame:
    """Returns the rows that all `sides` answered."""
    return table[table[[f"{side}_answered" for side in sides]].all(axis="columns")]
