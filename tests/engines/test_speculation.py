from __future__ import annotations

from typing import Any

import pytest
from support.variants import CPU, GPU, resolved, speculating

from kveval.engines.speculation import (
    check_speculation,
    judge_drafts,
    judge_partner,
    partner_of,
    speculation_notes,
    with_drafts_judged,
)
from kveval.errors import PlanError
from kveval.run.facts import Finding


@pytest.mark.parametrize("method", ["ngram_gpu", "draft_model", "eagle"])
def test_what_a_cpu_lacks(method: str) -> None:
    wanted = speculating({"method": method, "num_speculative_tokens": 2})
    with pytest.raises(PlanError, match=rf"method: '{method}' is for a GPU, .* allowed on CPU: ngram$"):
        check_speculation(resolved(wanted)[1], CPU)
    check_speculation(resolved(wanted, device=GPU)[1], GPU)
    check_speculation(resolved(speculating())[1], CPU)


def test_a_control_would_compare_two_things() -> None:
    with pytest.raises(PlanError, match=r"variants.ngram.control: .* this variant speculates as well"):
        check_speculation(resolved(speculating(kv_cache_dtype="fp8", control="emulated"))[1], CPU)


@pytest.mark.parametrize(
    ("variants", "partner"),
    [
        ([speculating()], "bf16"),
        (["fp8", speculating(kv_cache_dtype="fp8")], "fp8"),
        ([{"name": "other", "kv_cache_dtype": "fp8_e4m3"}, speculating(kv_cache_dtype="fp8_e4m3")], "other"),
        (["int8", speculating(kv_cache_dtype="int8")], "int8"),
        (["int4", speculating(emulate={"format": "int4"})], "int4"),
        ([speculating(kv_cache_dtype="fp8")], None),
        ([speculating(engine_args={"max-num-seqs": 4})], None),
        ([speculating(env={"A": "b"})], None),
        ([speculating(model="/other")], None),
        (["int4", speculating(emulate={"format": "int8"})], None),
    ],
)
def test_the_partner_differs_in_speculation_alone(variants: list[Any], partner: str | None) -> None:
    planned = resolved(*variants)
    found = partner_of(planned[-1], planned)
    assert (found.name if found else None) == partner
    assert partner_of(planned[0], planned) is None
    note = speculation_notes(planned)[0]
    if partner:
        assert note == f"ngram speculates (ngram): its answers are also compared with {partner}"
        assert judge_partner(planned[-1], planned) == []
    else:
        assert "no variant has this cache" in note
        assert [(f.level, f.code) for f in judge_partner(planned[-1], planned)] == [("warning", "speculation_alone")]


@pytest.mark.parametrize(
    ("counted", "code"),
    [
        ({"spec_drafts": 10.0, "spec_draft_tokens": 40.0, "spec_accepted_tokens": 3.0}, None),
        (
            {"spec_drafts": 10.0, "spec_draft_tokens": 40.0, "spec_accepted_tokens": 0.0},
            "speculation_none_accepted",
        ),
        ({"spec_drafts": 0.0}, "speculation_no_drafts"),
        ({}, None),
    ],
)
def test_drafts(counted: dict[str, float], code: str | None) -> None:
    plain, variant = resolved(speculating())
    assert [one.code for one in judge_drafts(variant, counted)] == ([code] if code else [])
    assert judge_drafts(plain, counted) == []


def test_a_second_launch_replaces_what_the_first_found() -> None:
    variant = resolved(speculating())[1]
    other = Finding(level="info", code="other", message="")
    first = with_drafts_judged(variant, [other], {"spec_drafts": 0.0})
    again = with_drafts_judged(variant, first, {"spec_drafts": 5.0, "spec_accepted_tokens": 0.0})
    assert [one.code for one in again] == ["other", "speculation_none_accepted"]
