"""One place says what cannot be judged, and every verdict follows it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console, RenderableType
from support.judge_command import document, kveval
from support.make_run import scored
from support.nights import asked_in_turn, breaking, night

from kveval.api.source import untrusted
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.trust.find import void_of
from kveval.judge.trust.problem import Problem
from kveval.report.terminal.summary import summary_table

ROWS = asked_in_turn()


def test_a_collapsed_baseline_passes_nobody(tmp_path: Path) -> None:
    run = night(tmp_path, ROWS, bf16=breaking(ROWS, 0.3), fp8=scored(0.9))
    judgement = judge_run(run)
    assert {one.code for one in judgement.problems if one.variant == "bf16"} == {"answers_change"}
    assert {row.verdict.word for row in judgement.comparisons if row.verdict} == {"undecided"}
    result = kveval("gate", run.path)
    assert result.code == 3
    assert kveval("recommend", run.path).code != 0


def test_a_collapsed_candidate_is_no_regression(tmp_path: Path) -> None:
    run = night(tmp_path, ROWS, fp8=breaking(ROWS, 0.66), int8=scored(0.9))
    result = kveval("gate", run.path)
    assert result.code == 3
    assert "answers change at question" in result.text
    # Nothing differs, and 24 contexts are too few to say that no context is lost: but it is judged.
    codes = {row.verdict.reason_code for row in judge_run(run).of("int8", "overall") if row.verdict}
    assert codes == {"loss_not_excluded"}


@pytest.mark.parametrize("broken", ["bf16", "fp8"])
def test_every_output_says_that_nothing_can_be_judged(tmp_path: Path, broken: str) -> None:
    # A good part is answered before and after, so that scores alone would give a verdict.
    answers = {"fp8": scored(0.9), broken: breaking(ROWS, 0.4)}
    path = night(tmp_path, ROWS, **answers).path
    said = f"{broken}: answers change at question"

    gate = kveval("gate", path)
    assert (gate.code, kveval("recommend", path).code) == (3, 3)
    assert said in gate.text
    found = document(path)
    assert (found["verdict"], found["exit_code"]) == ("infrastructure", 3)
    assert [(one["variant"], one["code"]) for one in found["problems"]] == [(broken, "answers_change")]
    assert found["problems"][0]["at_question"] == pytest.approx(0.4 * len(ROWS), abs=5)
    assert {check["verdict"] for check in found["checks"]} == {"infrastructure"}

    suites = ET.fromstring((path / "junit.xml").read_text())  # noqa: S314 our own output
    assert (suites.get("failures"), suites.get("errors")) == ("0", str(len(found["checks"])))
    markdown = (path / "summary.md").read_text()
    assert "KV cache gate: infrastructure" in markdown
    assert said in markdown

    summary = json.loads(kveval("report", path, "--json").text)
    assert [one["message"].startswith(said) for one in summary["problems"]] == [True]
    assert {one["word"] for one in summary["headlines"]} == {"undecided"}
    assert untrusted(summary["problems"]) is not None
    assert f"NOT JUDGED: {said}" in " ".join(_printed(summary_table(path)).split())
    page = (path / "report.html").read_text()
    assert page.index("Not judged:") < page.index('id="answer"')
    assert "proven safe up to</dt><dd>not known" in page

    diff = json.loads(kveval("diff", f"{path}:bf16", f"{path}:fp8", "--json").text)["pairs"][0]
    assert diff["problem"]["code"] == "answers_change"
    assert {row["verdict"] for row in diff["rows"]} == {"undecided"}
    assert f"NOT JUDGED: {said}" in kveval("diff", f"{path}:bf16", f"{path}:fp8").text


def test_a_broken_baseline_is_no_regression_below_the_lowest_score_either(tmp_path: Path) -> None:
    path = night(tmp_path, ROWS, bf16=breaking(ROWS, 0.3), fp8=scored(0.9)).path
    assert kveval("gate", path, "--min-baseline-score", "0.8").code == 3


def _printed(table: RenderableType) -> str:
    console = Console(width=160)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_only_what_is_void_takes_verdicts_away() -> None:
    partly = Problem("fp8", "unanswered", "fp8: some")
    void = Problem("int8", "facts_changed", "int8: changed")
    assert void_of([partly, void], "fp8", "bf16") is None
    assert void_of([partly, void], "int8", "bf16") == void
