from __future__ import annotations

from pathlib import Path

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.errors import UsageError
from kveval.report.history.nights import build_reports, runs_in


def night(path: Path, day: int, *, haystacks: int = 6, version: str = "0.32.0") -> Path:
    return make_run(
        path,
        samples=make_samples(haystacks=haystacks, questions=2),
        answers={"bf16": scored(0.9), "fp8": scored(0.8)},
        variants={"bf16": {"facts": {"storage": "native", "engine_version": version}}},
        manifest={"created": f"2026-01-0{day}T03:04:05Z"},
    )


def test_one_run_is_a_report_and_no_history(tmp_path: Path) -> None:
    run = night(tmp_path / "a", 1)
    assert build_reports([run]) == [("report", run / "report.html")]
    assert build_reports([run], tmp_path / "x.html") == [("report", tmp_path / "x.html")]


def test_several_runs_are_reports_and_their_history(tmp_path: Path) -> None:
    runs = [night(tmp_path / "b b", 2, version="0.33.0"), night(tmp_path / "a", 1)]
    written = build_reports(runs)
    assert [name for name, _ in written] == ["report", "report", "history"]
    assert written[-1][1] == tmp_path / "history.html"
    page = written[-1][1].read_text(encoding="utf-8")
    assert page.index('href="b%20b/report.html"') < page.index('href="a/report.html"')
    assert "(was <bdi>0.32.0</bdi>)" in page
    assert "other questions" not in page.split("<table", 1)[1]


def test_other_questions_are_marked(tmp_path: Path) -> None:
    written = build_reports([night(tmp_path / "a", 1), night(tmp_path / "b", 2, haystacks=7)])
    assert written[-1][1].read_text(encoding="utf-8").split("<table", 1)[1].count("other questions") == 1
    assert "do not compare with the nights below" in written[-1][1].read_text(encoding="utf-8")


def test_the_same_run_twice(tmp_path: Path) -> None:
    run = night(tmp_path / "a", 1)
    with pytest.raises(UsageError, match="is given twice"):
        build_reports([run, tmp_path / "." / "a"])


def test_the_history_names_both_scores(tmp_path: Path) -> None:
    expected = {"bf16": lambda _: 0.5, "fp8": lambda _: 0.4}
    samples = make_samples(haystacks=6, questions=2)
    answers = dict.fromkeys(expected, scored(0.9))
    new = make_run(tmp_path / "new", samples=samples, answers=answers, expected=expected,
                   manifest={"created": "2026-01-05T03:04:05Z"})  # fmt: skip
    page = build_reports([night(tmp_path / "old", 1), new])[-1][1].read_text(encoding="utf-8")
    assert "Overall score per night: greedy" in page
    assert "Overall score per night: expected probability" in page
    assert "expected probability at T 1 -10.0 [" in page
    assert "greedy +0.0 [" in page


def test_runs_of_a_folder_are_found(tmp_path: Path) -> None:
    runs = [night(tmp_path / "a", 1), night(tmp_path / "b", 2)]
    (tmp_path / "notes").mkdir()
    assert runs_in(tmp_path) == runs
    with pytest.raises(UsageError, match="holds 0 runs"):
        runs_in(tmp_path / "notes")


def test_a_loss_at_one_length_stands_beside_the_overall_one(tmp_path: Path) -> None:
    page = build_reports([night(tmp_path / "a", 1), night(tmp_path / "b", 2)])[-1][1].read_text(encoding="utf-8")
    assert "2K, points" in page
    assert "8K, points" in page
