"""What speculation and the prefix cache change, in a line each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from support.divergences import add_divergence
from support.make_run import GOOD, make_run, make_samples

from kveval.judge.divergence.of_run import divergences
from kveval.judge.evidence.cold import ColdComparison
from kveval.judge.evidence.speculation import Speculation, drafts
from kveval.judge.run_data import load_run
from kveval.report.sections.speculation.section import SpeculatingVariant
from kveval.report.terminal.evidence import acceptance_label, cold_label, divergence_lines, partner_label

COUNTERS = {
    "spec_drafts": 100.0, "spec_draft_tokens": 400.0, "spec_accepted_tokens": 150.0, "spec_accepted_at_0": 90.0,
    "spec_accepted_at_1": 60.0,
}  # fmt: skip


def speculating(**changes: Any) -> Speculation:
    given = {"variant": "fp8", "method": "ngram", "tokens": 4, "drafts": drafts(COUNTERS), "partner": None,
             "comparisons": (), "parting": None}  # fmt: skip
    return Speculation(**{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        (
            {},
            "ngram, 4 tokens per draft: 37.5% of 400 drafted tokens accepted, 2.50 tokens per draft step; "
            "accepted by position 0.90, 0.60",
        ),
        ({"drafts": None, "tokens": None}, "ngram: drafts not counted"),
        ({"drafts": drafts({"spec_drafts": 0.0})}, "ngram, 4 tokens per draft: nothing drafted"),
    ],
)
def test_how_many_drafts_were_accepted(changes: dict[str, Any], label: str) -> None:
    assert acceptance_label(speculating(**changes)) == label


def test_without_a_partner_nothing_is_said_of_the_change() -> None:
    assert partner_label(SpeculatingVariant(speculating(), ())).startswith("no variant does the same without")


def cold(**changes: Any) -> ColdComparison:
    given = {"variant": "fp8", "asked": 20, "n": 18, "unanswered": 1, "not_cold": 1, "not_warm": 0, "identical": 15,
             "lost": 2, "gained": 1, "baseline": None, "noise": None, "planned_share": 0.62, "hit_share": 0.6,
             "differences": (), "finding": None}  # fmt: skip
    return ColdComparison(**{**given, **changes})


def test_what_came_from_the_cache_and_what_could_not_be_compared() -> None:
    assert cold_label(cold()) == (
        "60% of prompt tokens from the prefix cache, planned 62%; asked again without it: 15 of 18 outputs identical, "
        "2 lost, 1 gained (not compared: 1 unanswered, 1 not cold the second time)"
    )
    assert cold_label(cold(asked=0)) == "60% of prompt tokens from the prefix cache, planned 62%"


def lines_of(run: Path) -> str:
    console = Console(width=400)
    with console.capture() as captured:
        for line in divergence_lines(divergences(load_run(run))):
            console.print(line)
    return captured.get()


def test_divergence_is_a_line_with_its_bound_error_and_count(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", samples=make_samples(haystacks=2, questions=2), answers=GOOD)
    assert lines_of(run) == ""
    rows = add_divergence(run, {"same": 0.2}, growth=4.0)
    (run / "divergence" / "same" / f"{rows[0].text_id}.npz").write_bytes(b"no")
    printed = lines_of(run)
    assert "same along the baseline's output: mean KLD at least 0." in printed
    assert "(7 of 8 texts, 700 tokens)" in printed
    assert "1 of 8 texts are not compared: the file of same is broken" in printed
    assert "the divergence grows along a text, by +" in printed
    assert "at temperature 1, a lower bound" in printed


def test_divergence_without_numbers_is_never_a_zero(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", samples=make_samples(haystacks=2, questions=2), answers=GOOD)
    add_divergence(run, {"same": np.nan}, texts=2)
    printed = lines_of(run)
    assert "mean KLD not finite: 200 tokens, maximum not finite, same top p 0.0%" in printed
    assert "PPL ratio not finite: 200 tokens (2 of 2 texts, 200 tokens)" in printed
    for path in (run / "divergence" / "same").iterdir():
        path.unlink()
    assert "the baseline's output: not measured" in (printed := lines_of(run))
    assert "2 of 2 texts are not compared: same: outputs cannot be forced on its server" in printed
