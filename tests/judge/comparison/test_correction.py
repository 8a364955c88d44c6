"""Holm covers the rows that are read together, for both questions that are asked of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import compare
from kveval.judge.comparison.correction import Row, corrected
from kveval.judge.comparison.pairing import pairs_with_baseline
from kveval.judge.comparison.scope import scopes
from kveval.judge.looks.basis import basis
from kveval.judge.run_data import load_run
from kveval.judge.statistics.hypothesis_tests import holm

POLICY = Policy()


def rows_of(path: Path) -> list[Row]:
    found = []
    for pair in pairs_with_baseline(load_run(path)):
        for scope in scopes(pair.table):
            rests_on = basis(pair, scope)
            row = compare(rests_on.table, pair.variant, pair.against, scope, policy=POLICY, confidence=0.95)
            found.append(Row(pair, rests_on, row))
    return found


def test_overall_and_lengths_are_corrected_together_for_both_hypotheses(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": scored(0.86), "int4": scored(0.5)})
    rows = rows_of(path)
    together = [index for index, row in enumerate(rows) if row.comparison.scope.level in ("overall", "length")]
    assert len(together) == 6
    found = corrected(rows, POLICY)
    for hypothesis, raw in (("no_difference", "p"), ("within_margin", "p_beyond")):
        p_values = [getattr(rows[index].comparison.difference, raw) for index in together]
        assert [getattr(found[index], hypothesis)["greedy"] for index in together] == pytest.approx(holm(p_values))


def test_one_length_counts_once(tmp_path: Path) -> None:
    samples = make_samples(lengths=(2048,))
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.9), "fp8": scored(0.8)})
    rows = rows_of(path)
    for row, p_values in zip(rows, corrected(rows, POLICY), strict=True):
        assert p_values.within_margin["greedy"] == row.comparison.difference.p_beyond


def test_a_variant_that_is_not_judged_has_none(tmp_path: Path) -> None:
    variants = {"control": {"role": "control", "of": "fp8"}}
    answers = {"bf16": scored(0.9), "fp8": scored(0.8), "control": scored(0.8)}
    rows = rows_of(make_run(tmp_path / "run", answers=answers, variants=variants))
    found = corrected(rows, POLICY)
    assert all(bool(p.within_margin) == (row.comparison.variant == "fp8") for row, p in zip(rows, found, strict=True))
