"""The policy of the judge: which loss is accepted, and what evidence a pass needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from kveval.config.values import StrictModel

Margin = Annotated[float, Field(gt=0, lt=1)]


class Policy(StrictModel):
    """What the user accepts.

    Each field is a key of ``judge:`` in a sweep configuration, and a flag of `kveval gate` and `kveval recommend`.
    """

    margin: Annotated[Margin, Field(description="Largest loss accepted, such as 0.02 for 2 points.")] = 0.02
    margins: Annotated[
        dict[str, Margin], Field(description="Margins of single task families, such as needle=0.01,code=0.05.")
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

    def over(self, families: Iterable[str], unit: str | None = None) -> Policy:
        """Returns the policy for samples of these families, one entry per sample: its margin is the mean of theirs.

        A margin of the `unit` of their scores goes before those of families.

        A variant that loses exactly its margin in every family loses exactly that mean over all of them.
        """
        if (of_unit := self.unit_margins.get(unit)) is not None:  # type: ignore[call-overload]
            return self.model_copy(update={"margin": of_unit})
        margins = [self.margins.get(family, self.margin) for family in families]
        if not margins or not self.margins:
            return self
        return self.model_copy(update={"margin": math.fsum(margins) / len(margins)})
