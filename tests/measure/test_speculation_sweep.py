"""Speculating variants through a whole sweep, against scripted servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.scripted import Oracle, ScriptedEngines
from support.sweeps import Planner

from kveval.api.prediction import predict_plan
from kveval.measure.plan.describe import describe
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.report.documents.summary import summary
from kveval.report.terminal.plan import plan_table
from kveval.run.manifest import Manifest

NGRAM = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 4}
VARIANTS = [
    "bf16",
    {"name": "bf16-ngram", "kv_cache_dtype": "bfloat16", "speculative_config": NGRAM},
    {"name": "fp8-ngram", "kv_cache_dtype": "fp8", "speculative_config": NGRAM},
]


async def run(plan: Plan, out: Path, options: dict[str, dict[str, Any]]) -> Manifest:
    engines = ScriptedEngines(Oracle(plan))
    engines.options = dict(options)
    return await sweep(plan, out, resume=False, reporter=SilentReporter(), open_engine=engines)


async def test_acceptance_is_counted_over_the_samples_alone(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=VARIANTS, aa_share=1.0)
    out = tmp_path / "run"
    manifest = await run(plan, out, {name: {"accepted": (3, 1)} for name in ("bf16-ngram", "fp8-ngram")})
    assert manifest.status == "complete"
    spec = manifest.variants["bf16-ngram"].spec
    assert (spec["speculative_config"], spec["without_speculation"]) == (NGRAM, "bf16")
    assert manifest.variants["fp8-ngram"].spec["without_speculation"] is None
    assert manifest.variants["bf16"].spec["speculative_config"] is None
    assert manifest.variants["bf16-ngram"].facts.speculative_tokens == 2
    prompt_tokens = sum(len(sample.prompt) for sample in plan.samples)
    counters = manifest.variants["bf16-ngram"].counters
    # The scripted server makes 4 drafts for every prompt token it saw; smoke questions are not among them.
    assert counters["spec_drafts"] == 4 * prompt_tokens
    assert "spec_drafts" not in manifest.variants["bf16"].counters
    entries = {entry["variant"]: entry for entry in summary(out)["speculation"]}
    drafts = entries["bf16-ngram"]["drafts"]
    assert drafts["acceptance"] == pytest.approx(4 / 8)
    assert drafts["tokens_per_step"] == pytest.approx(1 + 4 / 4)
    assert drafts["by_position"] == pytest.approx((3 / 4, 1 / 4))
    row = entries["bf16-ngram"]["rows"][0]
    assert (row["context_length"], row["identical"], row["lost"], row["aa"]["identical"]) == (None, 1.0, 0, 1.0)
    assert (entries["fp8-ngram"]["partner"], entries["fp8-ngram"]["rows"]) == (None, [])
    assert [finding.code for finding in manifest.variants["bf16-ngram"].findings] == ["no_forced_decode"]
    assert "speculation_alone" in [finding.code for finding in manifest.variants["fp8-ngram"].findings]


async def test_a_server_that_does_not_speculate_is_refused(plan_of: Planner, tmp_path: Path) -> None:
    manifest = await run(plan_of(variants=VARIANTS), tmp_path / "run", {"bf16-ngram": {"speculative_tokens": 0}})
    refused = manifest.variants["bf16-ngram"]
    assert refused.status == "refused"
    assert "(ngram) was asked for, the server does not speculate (speculation_off;" in str(refused.reason)
    assert manifest.variants["fp8-ngram"].status == "complete"


@pytest.mark.parametrize(
    ("options", "code"),
    [({"drafts": 0}, "speculation_no_drafts"), ({"accepted": ()}, "speculation_none_accepted")],
)
async def test_drafts_that_say_nothing_are_findings(
    plan_of: Planner, tmp_path: Path, options: dict[str, Any], code: str
) -> None:
    manifest = await run(plan_of(variants=VARIANTS[:2]), tmp_path / "run", {"bf16-ngram": options})
    assert manifest.status == "complete"
    found = [(f.level, f.code) for f in manifest.variants["bf16-ngram"].findings]
    assert found == [("info", "no_forced_decode"), ("warning", code)]


def test_the_plan_names_the_partner(plan_of: Planner) -> None:
    planned = plan_of(variants=VARIANTS)
    plan = describe(planned)
    assert plan["notes"][0] == "bf16-ngram speculates (ngram): its answers are also compared with bf16"
    assert "fp8-ngram speculates (ngram): no variant has this cache (fp8)" in plan["notes"][1]
    prediction = predict_plan(planned, None).model_dump(mode="json")
    assert plan_table({**plan, "load": None, "prediction": prediction}) is not None
