"""The looks of a run, as the report shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.api.runs import build_report
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.sections.looks.section import looks_table

PLANNED = [{"number": 1, "error_share": 0.2}, {"number": 2, "error_share": 0.7}]


def look(number: int, **found: Any) -> dict[str, Any]:
    finding = {"word": "undecided", "delta": -0.01, "low": -0.05, "high": 0.03, "reason": "r"} | found
    return {
        **PLANNED[number - 1], "at": "2026-01-02T03:04:05Z", "questions": 10, "context_lengths": [2048],
        "lengths": {"2048": finding},
    }  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = [
        row.model_copy(update={"first_look": 1 if int(row.haystack_id.rsplit("-", 1)[1]) < 10 else 2})
        for row in make_samples(lengths=(2048,), haystacks=20, questions=5)
    ]
    looks = [look(1), look(2, word="pass", delta=0.0, low=-0.01, high=0.01, stop="decided")]
    return make_run(
        tmp_path / "run", samples=rows, answers={"bf16": scored(0.9), "fp8": scored(0.9)},
        variants={"fp8": {"looks": looks}}, manifest={"planned_looks": PLANNED},
    )  # fmt: skip


def test_every_look_has_its_questions_and_its_own_confidence(path: Path) -> None:
    run = load_run(path)
    table = looks_table(run, judge_run(run))
    assert table is not None
    assert [(row.look.number, row.questions, row.finding.stop) for row in table.rows] == [
        (1, 50, None),
        (2, 100, "decided"),
    ]
    assert [round(row.confidence, 3) for row in table.rows] == [0.99, 0.965]


def test_intervals_are_drawn_to_one_scale(path: Path) -> None:
    run = load_run(path)
    table = looks_table(run, judge_run(run))
    assert table is not None
    first, last = table.rows
    assert table.margin < table.zero == table.width / 2 == last.middle
    assert first.left is not None
    assert last.left is not None
    assert first.left < table.margin < last.left
    assert first.middle is not None
    assert first.left < first.middle < table.zero


def test_the_page_shows_them_only_if_there_were_any(path: Path, tmp_path: Path) -> None:
    assert "What each look found" in Path(build_report(path)).read_text()
    plain = make_run(tmp_path / "plain", answers={"bf16": scored(0.9), "fp8": scored(0.9)})
    assert "What each look found" not in Path(build_report(plain)).read_text()
