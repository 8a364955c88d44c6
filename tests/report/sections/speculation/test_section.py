"""Speculating variants in the report and in a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.make_run import make_run, make_samples, scored
from support.speculating_runs import rewording, run, speculating

from kveval.report.documents.summary import summary
from kveval.report.html.report import build_report


def test_the_terminal_and_the_report_show_it(tmp_path: Path) -> None:
    answers = {"bf16": scored(0.9), "bf16-aa": scored(0.9), "bf16-ngram": rewording(0.2), "fp8-ngram": scored(0.9)}
    variants = {"bf16-ngram": speculating("bf16"), "fp8-ngram": speculating(None)}
    path = run(tmp_path / "run", answers, variants)
    from rich.console import Console

    from kveval.report.terminal.summary import summary_table

    console = Console(width=200, record=True, file=(tmp_path / "out").open("w"))
    console.print(summary_table(path))
    text = console.export_text()
    assert "37.5% of 400 drafted tokens accepted, 2.50 tokens per draft step" in text
    assert "against bf16: " in text
    assert "(A/A: 100.0%)" in text
    assert "no variant does the same without speculation" in text
    page = build_report(path).read_text()
    assert '<h3 id="speculation">' in page
    assert "outputs differ from those of bf16" in page
    assert "no variant does the same without speculation" in page


def test_a_run_without_speculation_shows_nothing_of_it(tmp_path: Path) -> None:
    path = run(tmp_path / "run", {"bf16": scored(0.9), "fp8": scored(0.9)}, {})
    assert summary(path)["speculation"] == []
    assert 'id="speculation"' not in build_report(path).read_text()


@pytest.mark.parametrize("status", ["refused", "stopped", "planned"])
def test_a_variant_that_did_not_run(tmp_path: Path, status: str) -> None:
    variants = {"bf16-ngram": speculating("bf16", status=status, facts=None, counters={})}
    path = make_run(
        tmp_path / "run", answers={"bf16": scored(0.9)}, samples=make_samples(haystacks=8, questions=2),
        variants={**variants}, manifest={"status": "incomplete"},
    )  # fmt: skip
    entry = summary(path)["speculation"][0]
    assert (entry["drafts"], entry["method"], entry["tokens"]) == (None, "ngram", None)
    build_report(path)
    from rich.console import Console

    from kveval.report.terminal.summary import summary_table

    Console(file=(tmp_path / "out").open("w")).print(summary_table(path))
