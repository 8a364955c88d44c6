"""The section shows every figure with its error, what was left out, and nothing where nothing was asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.divergences import add_divergence
from support.make_run import GOOD, make_run, make_samples, scored

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.documents.summary import summary
from kveval.report.html.report import build_report
from kveval.report.sections.divergence.section import SECTION
from kveval.run.divergence import DivergenceFolder, DivergenceText
from kveval.run.storage import to_json


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(
        tmp_path / "run",
        samples=make_samples(haystacks=3, questions=2),
        answers={**GOOD, "bf16-aa": scored(0.9)},
        variants={"bf16-aa": {"role": "aa", "of": "bf16"}},
    )


def one_without_probability(run: Path, variant: str, row: DivergenceText) -> None:
    """A token to which the variant gives probability 0, and the baseline more."""
    folder = DivergenceFolder(run)
    reading = folder.read(variant, row.text_id)
    assert reading is not None
    own = reading.logprobs.copy()
    own[5] = -np.inf
    folder.write(variant, row.text_id, replace(reading, logprobs=own))


def test_a_run_without_divergence_has_no_section(run: Path) -> None:
    loaded = load_run(run)
    assert SECTION.content(loaded, judge_run(loaded)) is None
    assert "Divergence along a text" not in build_report(run).read_text()


def test_the_section_shows_variants_beside_the_noise(run: Path) -> None:
    add_divergence(run, {"same": 0.2, "bf16-aa": 0.0}, growth=4.0)
    add_divergence(run, {"same": 0.2}, kind="text", texts=1)
    page = build_report(run).read_text()
    for words in (
        "Divergence along a text",
        "Along the baseline's own output",
        "Along the texts that were given",
        "the true divergence is at\nleast this",
        "mean KLD up to a position",
        "(A/A)",
        "the divergence grows along a text",
        "tokens 17 to 64",
    ):
        assert words.replace("&#39;", "'") in page.replace("&#39;", "'"), words


def test_a_run_without_a_second_baseline_says_so(run: Path) -> None:
    said = "it is not known how much diverges without any change"
    rows = add_divergence(run, {"same": 0.2, "bf16-aa": 0.0})
    assert said not in build_report(run).read_text()
    for row in rows:
        (run / "divergence" / "bf16-aa" / f"{row.text_id}.npz").unlink()
    assert said in build_report(run).read_text()


def test_what_is_not_compared_is_said(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.2, "bf16-aa": 0.0})
    (run / "divergence" / "same" / f"{rows[0].text_id}.npz").write_bytes(b"no")
    page = build_report(run).read_text()
    assert "1 of 8 texts are not compared: the file of same is broken" in page
    assert "the mean is not finite" not in page


def test_what_is_not_finite_is_said_in_place_of_the_mean(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.2, "bf16-aa": float("nan")})
    one_without_probability(run, "same", rows[0])
    page = " ".join(build_report(run).read_text().split())
    assert "<b>same</b>: <b>the mean is not finite</b>: 1 of 800 tokens. At 1 the variant gives probability 0" in page
    assert "<b>bf16-aa</b>: <b>the mean is not finite</b>: 800 of 800 tokens. At 0 the variant gives" in page
    assert '<span title="not finite: 1 token">not finite</span>' in page
    assert "cannot be told: not finite: 1 token." in page


def test_the_summary_holds_it_as_strict_json(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.2, "bf16-aa": float("nan")})
    one_without_probability(run, "same", rows[0])
    same, aa = json.loads(to_json(summary(run)))["divergence"]
    assert (same["variant"], same["kind"], same["compared"]) == ("same", "output", 8)
    assert same["summary"]["kld_mean"] == {"value": None, "se": None, "reason": "not finite: 1 token"}
    assert same["summary"]["not_finite"] == {"infinite": 1, "variant": 0, "baseline": 0}
    assert same["summary"]["kld_max"] is None
    assert same["summary"]["kld_median"] > 0
    assert same["summary"]["same_top"]["se"] > 0
    assert (aa["variant"], aa["compared"], aa["summary"]["not_finite"]["variant"]) == ("bf16-aa", 8, 800)
