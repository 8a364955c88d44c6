"""Rules of the gate are found in their folder."""

from __future__ import annotations

from kveval.judge.gate.check import find_rules
from kveval.judge.gate.rules import baseline_score, quantization


def test_a_file_in_the_folder_is_a_rule() -> None:
    assert {baseline_score.RULE, quantization.RULE} <= set(find_rules())


def test_rules_come_by_position_and_none_shares_one() -> None:
    positions = [rule.position for rule in find_rules()]
    assert positions == sorted(set(positions))
