"""The section shows every figure with its error, what was left out, and nothing where nothing was asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.divergences import add_divergence
from support.make_run import GOOD, make_run, make_samples, scored

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.documents.summary import summary
from kveval.report.html.report import build_report
from kveval.report.sections.divergence.section import SECTION
from kveval.run.storage import to_json


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(
        tmp_path / "run",
        samples=make_samples(haystacks=3, questions=2),
        answers={**GOOD, "bf16-aa": scored(0.9)},
        variants={"bf16-aa": {"role": "aa", "of": "bf16"}},
    )


def test_a_run_without_divergence_has_no_section(run: Path) -> None:
    loaded = load_run(run)
    assert SECTION.content(loaded, judge_run(loaded)) is None
    assert "Divergence along a text" not in build_report(run).read_text()


def test_the_section_shows_variants_beside_the_noise(run: Path) -> None:
    add_divergence(run, {"same": 0.2, "bf16-aa": 0.0}, growth=4.0)
    add_divergence(run, {"same": 0.2}, kind="text", texts=1)
    page = build_report(run).read_text()
    for words in (
        "Divergence along a text", "Along the baseline&#39;s own output", "Along the texts that were given",
        "the true divergence is at\nleast this", "(A/A)", "the divergence grows along a text", "tokens 17 to 64",
    ):  # fmt: skip
        assert words.replace("&#39;", "'") in page.replace("&#39;", "'"), words


def test_what_is_left_out_is_said(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.2, "bf16-aa": float("nan")})
    (run / "divergence" / "same" / f"{rows[0].text_id}.npz").write_bytes(b"no")
    page = build_report(run).read_text()
    assert "1 of 8 texts are left out" in page
    assert "no probability is a number" in page


def test_the_summary_holds_it_as_strict_json(run: Path) -> None:
    add_divergence(run, {"same": 0.2, "bf16-aa": float("nan")})
    same, aa = json.loads(to_json(summary(run)))["divergence"]
    assert (same["variant"], same["kind"], same["compared"]) == ("same", "output", 8)
    assert same["summary"]["kld_mean"]["se"] > 0
    assert (aa["variant"], aa["compared"], aa["summary"]) == ("bf16-aa", 8, None)
