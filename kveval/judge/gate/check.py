"""One thing that must hold for a run to pass the gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.variant_pair import VariantPair

State = Literal["pass", "regression", "infrastructure", "undecided"]
Kind = Literal["quantization", "time", "baseline score", "run", "control"]
EXIT_CODES: Mapping[State, int] = {"pass": 0, "regression": 1, "infrastructure": 3, "undecided": 5}
WORST_LAST: tuple[State, ...] = ("pass", "undecided", "infrastructure", "regression")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold.

    Attributes:
        kind: quantization: a candidate against the baseline of the same run. time: a variant against itself in the
            blessed run. baseline score: the policy's minimum. run, control: that they ended.
        against: what `variant` was compared with; None where it was not compared.
        blocks: whether it keeps the gate shut; always for a regression or an infrastructure problem.
        comparisons: the rows it rests on.
        contest: the pairs behind them.
    """

    kind: Kind
    variant: str
    state: State
    reason: str
    against: str | None = None
    blocks: bool = True
    comparisons: tuple[Comparison, ...] = ()
    contest: VariantPair | None = None
