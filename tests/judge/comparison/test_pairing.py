"""The answers of every side to one sample stand in one row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from support.make_run import make_run, scored

from kveval.judge.comparison.pairing import answered_by, pair, pairs_with_baseline
from kveval.judge.run_data import load_run

SAMPLES = pd.DataFrame(
    {"doc": [{}, {}, {"scored": False}, {}], "task": ["t", "t", "t", "other"]}, index=["a", "b", "c", "d"]
)


def records(expected: Mapping[str, Any] | None = None, **rows: tuple[str, float, str]) -> pd.DataFrame:
    """Outcome, score and output by sample id, and expected scores."""
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["outcome", "score", "output"])
    table["expected"] = [(expected or {}).get(name) for name in table.index]
    table["expected_error"] = None
    return table


def forced(score: float, unit: str = "probability", temperature: float = 1.0) -> dict[str, Any]:
    return {"score": score, "unit": unit, "temperature": temperature}


BASELINE = records(d=("correct", 1.0, "x"), a=("correct", 1.0, "x"), b=("engine_error", 0.0, ""))
CANDIDATE = records(a=("correct", 1.0, "y"), b=("wrong", 0.0, ""), d=("truncated", 0.25, "x"))


def column(table: pd.DataFrame, name: str) -> list[Any]:
    return list(table[name])


def test_rows_are_paired_by_sample_id_whatever_their_order() -> None:
    table = pair(SAMPLES, {"baseline": BASELINE, "candidate": CANDIDATE})
    assert column(table, "baseline_outcome") == ["correct", "engine_error", "missing", "correct"]
    assert column(table, "candidate_score") == [1.0, 0.0, 0.0, 0.25]
    assert column(table, "candidate_correct") == [True, False, False, False]
    assert column(table, "candidate_identical") == [False, True, False, True]
    assert column(table, "scored") == [True, True, False, True]


def test_an_error_or_a_missing_record_is_no_answer() -> None:
    table = pair(SAMPLES, {"baseline": BASELINE, "candidate": CANDIDATE})
    assert column(table, "baseline_answered") == [True, False, False, True]
    assert list(answered_by(table, "baseline", "candidate").index) == ["a", "d"]


def test_expected_scores_of_one_unit_and_temperature_are_paired() -> None:
    baseline = records({"a": forced(0.5), "d": forced(0.5)}, a=("wrong", 0, ""), b=("wrong", 0, ""), d=("wrong", 0, ""))
    candidate = records(
        {"a": forced(0.25), "b": forced(0.25), "d": forced(0.25, temperature=0.6)},
        a=("wrong", 0, ""), b=("wrong", 0, ""), d=("wrong", 0, ""),
    )  # fmt: skip
    table = pair(SAMPLES, {"baseline": baseline, "candidate": candidate})
    assert table["baseline_expected"].dropna().to_dict() == {"a": 0.5, "d": 0.5}
    assert table["candidate_expected"].dropna().to_dict() == {"a": 0.25}


def test_expected_scores_of_other_texts_are_not_paired() -> None:
    answers = {"a": ("wrong", 0.0, ""), "d": ("wrong", 0.0, "")}
    first = records({name: forced(0.5) | {"token_ids": [[1, 2]]} for name in "ad"}, **answers)
    second = records({"a": forced(0.5) | {"token_ids": [[1, 2]]}, "d": forced(0.5) | {"token_ids": [[3]]}}, **answers)
    table = pair(SAMPLES, {"baseline": first, "candidate": second})
    assert table["candidate_expected"].dropna().to_dict() == {"a": 0.5}


def test_a_sample_that_could_not_be_forced_has_the_unit_of_its_task() -> None:
    """Else a variant whose hard samples fail would be judged by its easy ones."""
    baseline = records({"a": forced(0.5)}, a=("wrong", 0, ""), b=("wrong", 0, ""), d=("wrong", 0, ""))
    assert column(pair(SAMPLES, {"baseline": baseline, "candidate": baseline}), "unit") == [
        "probability", None, "probability", None,
    ]  # fmt: skip
    baseline.loc["b", "expected_error"] = "non_finite"
    assert column(pair(SAMPLES, {"baseline": baseline, "candidate": baseline}), "unit")[:2] == ["probability"] * 2


def test_a_sample_that_was_forced_on_one_side_only_has_no_unit() -> None:
    answers = dict.fromkeys("abd", ("wrong", 0.0, ""))
    first, second = records(dict.fromkeys("abd", forced(0.5)), **answers), records({"a": forced(0.5)}, **answers)
    table = pair(SAMPLES, {"baseline": first, "candidate": second})
    assert column(table, "unit") == ["probability", None, "probability", None]
    second.loc["b", "expected_error"] = "non_finite"
    assert column(pair(SAMPLES, {"baseline": first, "candidate": second}), "unit")[:2] == ["probability"] * 2


def test_an_answer_that_a_second_run_or_a_control_lacks_is_not_one_that_could_not_be_forced() -> None:
    both = records({"a": forced(0.5)}, a=("wrong", 0, ""), b=("wrong", 0, ""), c=("wrong", 0, ""), d=("wrong", 0, ""))
    part = both.loc[["a"]]
    table = pair(SAMPLES, {"baseline": both, "candidate": both, "aa": part, "control": part})
    assert column(table, "unit") == ["probability", None, None, None]


def test_a_control_stands_beside_its_candidate_and_gets_no_verdict(tmp_path: Path) -> None:
    answers = dict.fromkeys(("bf16", "fp8", "fp8-control"), scored(0.9))
    variants = {"fp8-control": {"role": "control", "of": "fp8"}, "fp8": {"status": "stopped", "reason": "no power"}}
    run = load_run(make_run(tmp_path / "run", answers=answers, variants=variants))
    fp8, control = pairs_with_baseline(run)
    assert (fp8.variant, fp8.against, fp8.control, fp8.judged) == ("fp8", "bf16", "fp8-control", True)
    assert "no power" in str(fp8.obstacle)
    assert "control_outcome" in fp8.table
    assert (control.judged, control.control, control.obstacle) == (False, None, None)
