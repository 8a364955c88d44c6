"""Findings that every kind of engine shares."""

from __future__ import annotations

import pytest
from support.variants import variant

from kveval.engines.base import cache_findings, changed_findings
from kveval.run.facts import Facts


@pytest.mark.parametrize(
    ("facts", "codes"),
    [
        (Facts(), []),
        (Facts(scales="1.0"), ["scales_1"]),
        (Facts(scales="calibrated"), []),
        (Facts(skip_layers="[]"), []),
        (Facts(skip_layers="['0']"), ["skip_layers"]),
        (Facts(prefix_caching=False), ["no_prefix_caching"]),
        (Facts(prefix_caching=True), []),
    ],
)
def test_what_the_dtypes_name_does_not_tell(facts: Facts, codes: list[str]) -> None:
    assert [finding.code for finding in cache_findings(facts, variant())] == codes


def test_scales_of_a_baseline_are_nobodys_concern() -> None:
    assert list(cache_findings(Facts(scales="1.0"), variant("bf16", "baseline"))) == []


def test_what_changed_together_with_the_format_names_both_sides() -> None:
    ours, theirs = Facts(attention_backend="A", max_model_len=8), Facts(attention_backend="B", max_model_len=9)
    found = list(changed_findings(ours, theirs, ("attention_backend", "max_model_len", "execution")))
    assert [finding.code for finding in found] == ["other_backend", "other_max_model_len"]
    assert found[0].message == "attention_backend A, the baseline's is B: it changed together with the format"
