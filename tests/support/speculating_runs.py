"""Runs with variants that speculate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kveval.run.records import Outcome, SampleRow
from support.make_run import Answer, make_run, make_samples, scored

COUNTERS = {
    "spec_drafts": 100.0, "spec_draft_tokens": 400.0, "spec_accepted_tokens": 150.0, "spec_accepted_at_0": 90.0,
    "spec_accepted_at_1": 60.0, "spec_accepted_at_10": 0.0, "generation_tokens": 250.0,
}  # fmt: skip


def rewording(share: float) -> Answer:
    """Right where `scored(0.9)` is, in other words on `share` of the samples."""

    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        given = scored(0.9)(row, rng)
        return (given[0], f"b{given[1]}") if given and rng.random() < share else given

    return answer


def speculating(partner: str | None, **changes: Any) -> dict[str, Any]:
    spec = {"kv_cache_dtype": "x", "speculative_config": {"method": "ngram"}, "without_speculation": partner}
    facts = {"storage": "native", "speculative_method": "ngram", "speculative_tokens": 4}
    return {"spec": spec, "facts": facts, "counters": COUNTERS, **changes}


def run(path: Path, answers: Mapping[str, Answer], variants: Mapping[str, Any]) -> Path:
    samples = make_samples(haystacks=8, questions=5)
    aa = {"bf16-aa": {"role": "aa", "of": "bf16"}} if "bf16-aa" in answers else {}
    return make_run(path, answers=answers, samples=samples, variants={**aa, **variants})
