"""What speculation and the prefix cache change, in a line each."""

from __future__ import annotations

from typing import Any

import pytest

from kveval.judge.evidence.cold import ColdComparison
from kveval.judge.evidence.speculation import Speculation, drafts
from kveval.report.sections.speculation.section import SpeculatingVariant
from kveval.report.terminal.evidence import acceptance_label, cold_label, partner_label

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
