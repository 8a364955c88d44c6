"""The policy of the judge: which loss is accepted, and what evidence a pass needs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from kveval.config.values import StrictModel

_POINTS = re.compile(r"([0-9.]+) ?(?:%|pt|pts|points?)")


def parse_margin(value: Any) -> float:
    """Returns the share that ``0.02``, ``"0.02"``, ``"2pt"`` or ``"2%"`` mean.

    Raises:
        ValueError: anything else, also a bare ``2``, which may mean points.
    """
    text = str(value).strip()
    points = _POINTS.fullmatch(text)
    try:
        share = float(points[1]) / 100 if points else float(text)
    except ValueError:
        share = math.nan
    if isinstance(value, bool) or not 0 < share < 1:
        number = f"{share:g}" if not points and 1 <= share < 100 else "2"
        raise ValueError(
            f"{value!r} is no margin between 0 and 1; use for {number} points: {float(number) / 100:g}, {number}pt "
            f"or {number}%"
        )
    return share


Margin = Annotated[float, BeforeValidator(parse_margin)]


class Policy(StrictModel):
    """What the user accepts.

    Each field is a key of ``judge:`` in a sweep configuration, and a flag of `kveval gate` and `kveval recommend`.
    """

    margin: Annotated[Margin, Field(description="Largest loss accepted: 2pt, 2% and 0.02 all mean 2 points.")] = 0.02
    margin_relative: Annotated[
        Margin | None,
        Field(
            description="Largest share of the baseline's score accepted as a loss, such as 0.05. It holds beside the "
            "other margins: the smaller one counts."
        ),
    ] = None
    margins: Annotated[
        dict[str, Margin], Field(description="Margins of single task families, such as needle=0.01,code=0.05.")
    ] = {}
    tiers: Annotated[
        dict[str, Literal["blocking", "advisory"]],
        Field(
            description="Tiers of single task families, such as structured=advisory: judged and reported, but never "
            "in the way of a pass. blocking is the default."
        ),
    ] = {}
    unit_margins: Annotated[
        dict[Literal["probability", "token_accuracy", "entries"], Margin],
        Field(description="Margins of single units of the expected score, such as token_accuracy=0.01."),
    ] = {}
    evidence: Annotated[
        Literal["expected", "greedy", "both"],
        Field(
            description="expected, greedy or both: the score that verdicts rest on. expected takes the greedy score "
            "where a sample has no expected one; both needs both to pass."
        ),
    ] = "expected"
    confidence: Annotated[float, Field(gt=0.5, lt=1, description="Confidence of every interval, such as 0.95.")] = 0.95
    undecided: Annotated[
        Literal["block", "allow"],
        Field(description="block or allow: whether an undecided verdict fails the gate."),
    ] = "block"
    min_baseline_score: Annotated[
        float, Field(ge=0, le=1, description="Lowest overall score the baseline may have.")
    ] = 0.0
    max_unanswered_share: Annotated[
        float, Field(ge=0, lt=1, description="Largest share of unanswered samples; above it, the run counts as broken.")
    ] = 0.02

    @model_validator(mode="before")
    @classmethod
    def _accept_former_name(cls, values: Any) -> Any:
        # Run directories and blessed files made before the key was renamed hold "inconclusive".
        if not isinstance(values, Mapping) or "inconclusive" not in values:
            return values
        current = {key: value for key, value in values.items() if key != "inconclusive"}
        return {"undecided": values["inconclusive"], **current}

    @property
    def advisory(self) -> frozenset[str]:
        """The task families that are judged and reported, and never in the way of a pass."""
        return frozenset(family for family, tier in self.tiers.items() if tier == "advisory")

    def margin_over(
        self, samples: Mapping[str, int], baseline_scores: Mapping[str, float], unit: str | None = None
    ) -> float:
        """Returns the largest loss accepted over samples of several families: the mean of their margins.

        A variant that loses exactly its margin in every family loses exactly that mean over all of them. A margin of
        the `unit` of their scores goes before those of families. Where a relative margin is smaller than that, it
        counts: 2 points of 20 are not 2 points of 90. It is taken of the baseline's score in each family.

        Args:
            samples: the number of samples of each family.
            baseline_scores: of each family, if the baseline has one.
        """
        total = sum(samples.values())
        if not total:
            return self.unit_margins.get(unit, self.margin)  # type: ignore[call-overload, no-any-return]
        parts = [
            count * min(self._absolute(family, unit), self._relative(baseline_scores.get(family)))
            for family, count in samples.items()
        ]
        return math.fsum(parts) / total

    def _absolute(self, family: str, unit: str | None) -> float:
        of_unit = self.unit_margins.get(unit)  # type: ignore[call-overload]
        return self.margins.get(family, self.margin) if of_unit is None else of_unit

    def _relative(self, baseline_score: float | None) -> float:
        if self.margin_relative is None or baseline_score is None:
            return math.inf
        return self.margin_relative * baseline_score
