from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.judge.evidence.output_length import by_output_length, step_curves
from kveval.judge.run_data import RunData, load_run
from kveval.run.directory import RunDirectory

STEPS = 16


def run_with(folder: Path, fields: Callable[[str, int], dict[str, object]]) -> RunData:
    """Makes a run whose records have these fields, by variant and place."""
    samples = make_samples(lengths=(2048,), haystacks=10, questions=4)
    path = make_run(folder / "run", samples=samples, answers={name: scored(1.0) for name in ("bf16", "int2")})
    for name in ("bf16", "int2"):
        directory = RunDirectory(path)
        lines = [
            record.model_copy(update=fields(name, place)).model_dump_json()
            for place, record in enumerate(directory.records(name))
        ]
        directory.records_path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return load_run(path)


def test_a_variant_that_errs_from_a_step_on_falls_there_and_its_first_steps_hold(tmp_path: Path) -> None:
    def fields(variant: str, place: int) -> dict[str, object]:
        right = STEPS if variant == "bf16" else 4 + place % 3
        return {
            "steps": [k < right for k in range(STEPS)],
            "step_tokens": [10 * (k + 1) for k in range(STEPS)],
        }

    rows = step_curves(run_with(tmp_path, fields), confidence=0.95)
    bins = [(row.first, row.last) for row in rows if row.variant == "int2"]
    assert bins == [(k, k + 1) for k in range(1, 16, 2)]
    differences = {row.first: row.difference for row in rows if row.variant == "int2"}
    assert differences[1].delta == differences[3].delta == 0
    assert differences[1].low < 0  # nothing differed, and that excludes no loss for certain
    assert differences[7].delta == differences[15].delta == -1
    assert differences[7].high < 0
    assert [row.baseline_tokens for row in rows if row.variant == "int2"] == [20 * k for k in range(1, 9)]
    assert {row.own.mean for row in rows if row.variant == "bf16"} == {1.0}
    assert all(row.difference is None for row in rows if row.variant == "bf16")


def test_the_same_steps_differ_nowhere(tmp_path: Path) -> None:
    run = run_with(tmp_path, lambda _, place: {"steps": [k < place for k in range(8)], "step_tokens": [None] * 8})
    rows = [row for row in step_curves(run, confidence=0.95) if row.variant == "int2"]
    assert {row.difference.delta for row in rows} == {0.0}
    assert {row.baseline_tokens for row in rows} == {None}


def test_answers_that_are_no_chain_have_no_curve(tmp_path: Path) -> None:
    assert step_curves(run_with(tmp_path, lambda *_: {}), confidence=0.95) == []


def test_the_baselines_length_sorts_both_answers(tmp_path: Path) -> None:
    def fields(variant: str, place: int) -> dict[str, object]:
        is_long = place % 2 == 1
        score = 0.0 if variant == "int2" and is_long else 1.0
        return {"output_tokens": 500 if variant == "int2" else 33 if is_long else 32, "score": score}

    rows = [row for row in by_output_length(run_with(tmp_path, fields), confidence=0.95) if row.variant == "int2"]
    assert [(row.first, row.last, row.own.n) for row in rows] == [(0, 32, 20), (33, 64, 20)]
    assert [row.difference.delta for row in rows] == pytest.approx([0.0, -1.0])
