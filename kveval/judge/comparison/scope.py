"""The samples a comparison is about: all, one context length, one family, or one cell."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

Level = Literal["overall", "length", "family", "cell"]
LEVELS: dict[Level, list[str]] = {
    "overall": [],
    "length": ["context_length"],
    "family": ["family"],
    "cell": ["context_length", "family", "task"],
}

SUMMARY_LEVELS: tuple[Level, ...] = ("overall", "length")
"""The rows that must all pass for a variant to pass."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Names the samples of one comparison. None stands for all."""

    level: Level
    family: str | None = None
    task: str | None = None
    context_length: int | None = None

    def __str__(self) -> str:
        parts = [self.task or self.family, f"{self.context_length:,} tokens" if self.context_length else None]
        return " at ".join(part for part in parts if part) or "overall"


def scopes(samples: pd.DataFrame, *levels: Level) -> Iterator[Scope]:
    """Yields every scope of `levels`, in this order. Without levels: overall, then every length, family and cell."""
    for level in levels or LEVELS:
        columns = LEVELS[level]
        if not columns:
            yield Scope(level)
            continue
        for row in samples[columns].drop_duplicates().sort_values(columns).to_dict("records"):
            yield Scope(level, **{str(key): value for key, value in row.items()})


def in_scope(samples: pd.DataFrame, scope: Scope, *, advisory: Collection[str] = ()) -> pd.DataFrame:
    """Returns the rows of `samples` that belong to `scope`.

    The rows that must all pass leave out the families that are `advisory`.
    """
    chosen = np.ones(len(samples), dtype=bool)
    if advisory and scope.level in SUMMARY_LEVELS:
        chosen &= ~samples["family"].isin(advisory).to_numpy(dtype=bool)
    for column in LEVELS[scope.level]:
        chosen &= (samples[column] == getattr(scope, column)).to_numpy(dtype=bool)
    return samples[chosen]
