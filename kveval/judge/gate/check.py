"""What one rule of the gate found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kveval.errors import ExitCode
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.variant_pair import VariantPair

State = Literal["pass", "undecided", "infrastructure", "regression"]
WORST_LAST: tuple[State, ...] = ("pass", "undecided", "infrastructure", "regression")
EXIT_CODES: Mapping[State, ExitCode] = {
    "pass": ExitCode.OK,
    "undecided": ExitCode.UNDECIDED,
    "infrastructure": ExitCode.INFRASTRUCTURE,
    "regression": ExitCode.LOSS,
}


@dataclass(frozen=True, slots=True)
class Check:
    """Says whether one thing holds, and why, in one sentence.

    Attributes:
        kind: what was checked, in a word or two: the start of its line in every output.
        variant: the variant that was checked, or the id of the run.
        against: what `variant` was compared with. None if it was not compared.
        blocks: whether it fails the gate. A check that passes never does.
        comparisons: the rows the state rests on.
        pair: the samples behind these rows.
    """

    kind: str
    variant: str
    state: State
    reason: str
    against: str | None = None
    blocks: bool = True
    comparisons: tuple[Comparison, ...] = ()
    pair: VariantPair | None = None
