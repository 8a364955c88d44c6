from __future__ import annotations

from kveval.judge.gate.gate import Gate
from kveval.report.files.flips import flip_excerpts


def test_flips_are_short_excerpts_and_losses_come_first(gates: dict[str, Gate]) -> None:
    decision = gates["judged"]
    check = next(check for check in decision.checks if check.variant == "int8")
    flips = list(flip_excerpts(decision.run, check))
    assert 0 < len(flips) <= 20
    assert all(flip.after is not None and len(flip.after) < 200 for flip in flips)
    assert flips[0].direction == "lost"
