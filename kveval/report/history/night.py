"""One night of the history, and what it says of each variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.endpoint import Kind
from kveval.judge.comparison.headline import Headline
from kveval.judge.statistics.clusters import Score
from kveval.run.manifest import VariantRun


@dataclass(frozen=True, slots=True)
class Entry:
    """One variant of one night: its score of every kind. `headline` and `proven_safe` are None for the baseline.

    Attributes:
        rows: the comparisons with the baseline by context length; None is the key of the one overall.
    """

    variant: VariantRun
    scores: dict[Kind, Score]
    headline: Headline | None
    rows: Mapping[int | None, Comparison]
    proven_safe: str | None


@dataclass(frozen=True, slots=True)
class Night:
    """One run of the history.

    Attributes:
        engine: the version that the baseline's engine reports.
        engine_changed: the version of the night before. None if it is the same.
        asked_changed: whether samples or model differ from the night before: then the scores cannot be compared.
    """

    name: str
    path: Path
    created: str
    status: str
    engine: str | None
    engine_changed: str | None
    asked_changed: bool
    asked: tuple[str, str | None]
    entries: tuple[Entry, ...]
