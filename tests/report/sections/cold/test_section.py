"""What the prefix cache changes, in the report and in a terminal."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from support.cold_runs import SAMPLES, add_cold, make, wrong
from support.make_run import make_run, scored

from kveval.judge.evidence.cold import cold_comparisons
from kveval.judge.run_data import load_run
from kveval.report.documents.summary import summary
from kveval.report.html.report import build_report
from kveval.report.terminal.summary import summary_table


def test_a_run_without_a_check_shows_none(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(0.5), "fp8": scored(0.5)}, samples=SAMPLES)
    assert cold_comparisons(load_run(path)) == []
    assert summary(path)["prefix_cache"] == []
    assert "With and without the prefix cache" not in build_report(path).read_text()


def test_report_and_terminal_show_it(tmp_path: Path) -> None:
    path = make(tmp_path / "run")
    add_cold(path, "bf16", {})
    add_cold(path, "fp8", dict.fromkeys(wrong(SAMPLES[:20], path)[:7], "correct"))
    page = build_report(path).read_text()
    assert "With and without the prefix cache" in page
    assert "7 of 20 answers flip without the prefix cache" in page
    assert "7 outputs differ without the prefix cache" in page
    assert "<td>correct: value-" in page
    console = Console(file=io.StringIO(), width=200)
    console.print(summary_table(path))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert (
        "fp8: 60% of prompt tokens from the prefix cache, planned 62%; asked again without it: 13 of 20 outputs" in text
    )
    assert "warning: 7 of 20 answers flip" in text
