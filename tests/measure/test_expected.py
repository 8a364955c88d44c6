"""Every record says how probable the right answer was, or why nobody knows."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.forcing import forcing, reading
from support.make_run import make_record
from support.scripted import Oracle, Reply, ScriptedEngines
from support.sweeps import Planner, records, run

from kveval.measure.expected import ExpectedAsker
from kveval.measure.plan.plan import Plan
from kveval.measure.records import sample_row
from kveval.run.records import ExpectedMethod


def engines_of(plan: Plan, folder: Path, **logprobs: float) -> ScriptedEngines:
    """Engines that are forced: every token of a reference has the logprob of its variant."""
    engines = ScriptedEngines(Oracle(plan))
    for name, logprob in logprobs.items():
        own = folder / name
        own.mkdir()
        engines.force[name] = (own, forcing(own, lambda _, logprob=logprob: logprob))
    return engines


async def test_the_expected_score_is_the_product_over_the_answer_and_not_over_its_lead(
    plan_of: Planner, tmp_path: Path
) -> None:
    plan = plan_of(variants=["bf16", "int8"], samples=3, tasks=["niah_single"], aa_share=0)
    await run(plan, tmp_path / "run", engines_of(plan, tmp_path, bf16=-0.1, int8=-0.2))
    for variant, logprob in (("bf16", -0.1), ("int8", -0.2)):
        for record in records(tmp_path / "run", variant):
            planned = plan.references[record.sample_id]
            scored = sum(part is not None for part in planned.texts[0].parts)
            assert record.expected is not None
            assert record.expected_error is None
            assert 0 < scored <= len(planned.texts[0].token_ids)
            assert record.expected.score == pytest.approx(math.exp(logprob * scored), rel=1e-4)
            assert record.expected.unit == "probability"
            assert record.expected.temperature == plan.serving_temperature == 1.0
            assert record.expected.token_ids == [text.token_ids.tolist() for text in planned.texts]
            assert record.outcome == "correct"


async def test_without_forcing_a_record_says_nothing_of_it(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"], samples=2, tasks=["niah_single"], aa_share=0)
    manifest = await run(plan, tmp_path / "run", ScriptedEngines(Oracle(plan)))
    assert manifest.variants["bf16"].facts.forced_decode is None
    assert all(r.expected is None and r.expected_error is None for r in records(tmp_path / "run", "bf16"))


async def test_forcing_that_fails_its_check_is_a_finding_and_the_sweep_goes_on(
    plan_of: Planner, tmp_path: Path
) -> None:
    plan = plan_of(variants=["bf16"], samples=2, tasks=["niah_single"], aa_share=0)
    engines = ScriptedEngines(Oracle(plan))
    engines.force["bf16"] = (tmp_path, forcing(tmp_path, leaves_result=False))
    manifest = await run(plan, tmp_path / "run", engines)
    assert manifest.status == "complete"
    assert manifest.variants["bf16"].facts.forced_decode is False
    assert [finding.code for finding in manifest.variants["bf16"].findings] == ["forced_decode_off"]
    assert all(r.expected is None and r.outcome == "correct" for r in records(tmp_path / "run", "bf16"))


async def test_what_cannot_be_forced_is_read_token_by_token(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16", "int8"], samples=2, tasks=["niah_single"], aa_share=0)
    engines = ScriptedEngines(Oracle(plan))
    engines.force["bf16"] = (tmp_path, forcing(tmp_path, leaves_result=False))
    engines.read = dict.fromkeys(("bf16", "int8"), reading())
    # Only what is read alike is compared: the candidate could be forced, and is not.
    engines.force["int8"] = (tmp_path, forcing(tmp_path))
    manifest = await run(plan, tmp_path / "run", engines)
    found = {name: variant.findings for name, variant in manifest.variants.items()}
    assert [(one.level, one.code) for one in found["bf16"]] == [("warning", "forced_decode_off")]
    assert found["bf16"][0].message.endswith("expected scores are read token by token, at temperature 1")
    assert ("info", "stepwise") in [(one.level, one.code) for one in found["int8"]]
    for name in ("bf16", "int8"):
        methods = {r.expected.method for r in records(tmp_path / "run", name) if r.expected}
        assert methods == {"stepwise"}


async def test_a_candidate_is_not_read_token_by_token_beside_a_forced_baseline(
    plan_of: Planner, tmp_path: Path
) -> None:
    plan = plan_of(variants=["bf16", "int8"], samples=2, tasks=["niah_single"], aa_share=0)
    engines = engines_of(plan, tmp_path, bf16=-0.1, int8=-0.1)
    folder, _ = engines.force["int8"]
    engines.force["int8"] = (folder, forcing(folder, leaves_result=False))
    engines.read["int8"] = reading()
    manifest = await run(plan, tmp_path / "run", engines)
    [finding] = [one for one in manifest.variants["int8"].findings if one.code == "forced_decode_off"]
    assert "the baseline's are not read so" in finding.message
    assert all(r.expected is None for r in records(tmp_path / "run", "int8"))


@pytest.mark.parametrize(("logprob", "score"), [(-math.inf, 0.0), (math.nan, None)])
async def test_a_probability_of_zero_is_a_score_and_no_number_is_none(
    plan_of: Planner, tmp_path: Path, logprob: float, score: float | None
) -> None:
    plan = plan_of(variants=["bf16"], samples=3, tasks=["niah_single"], aa_share=0)
    engines = engines_of(plan, tmp_path, bf16=-0.1)
    folder, force = engines.force["bf16"]
    last = list(plan.references)[-1]
    texts = [text.token_ids.tolist() for text in plan.references[last].texts]
    other = forcing(folder, lambda _: logprob, reported=lambda _: -1.0)
    engines.force["bf16"] = (
        folder,
        lambda body: (other if body["vllm_xargs"]["kveval_targets"] in texts else force)(body),
    )
    await run(plan, tmp_path / "run", engines)
    found = {r.sample_id: r for r in records(tmp_path / "run", "bf16")}
    assert {r.outcome for r in found.values()} == {"correct"}
    assert sum(r.expected is not None for r in found.values()) == 2 + (score is not None)
    expected, error = found[last].expected, found[last].expected_error
    if score is None:
        assert error is not None
        assert error.kind == "non_finite"
    else:
        assert expected is not None
        assert expected.score == score
        assert min(expected.logprobs[0]) == -9999.0


async def test_a_sample_that_the_engine_did_not_answer_is_not_forced(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"], samples=2, tasks=["niah_single"], aa_share=0)
    engines = engines_of(plan, tmp_path, bf16=-0.1)
    broken = plan.samples[0].prompt.token_ids().tolist()
    oracle = Oracle(plan)
    engines.handler = lambda prompt, body: (
        Reply(status=400, message="no") if prompt == broken and "cache_salt" not in body else oracle(prompt, body)
    )
    await run(plan, tmp_path / "run", engines)
    assert {r.outcome: r.expected is None for r in records(tmp_path / "run", "bf16")} == {
        "engine_error": True,
        "correct": False,
    }


async def test_forced_texts_are_planned_to_come_from_the_prefix_cache(plan_of: Planner, tmp_path: Path) -> None:
    options = {"variants": ["bf16"], "samples": 2, "tasks": ["niah_single"], "aa_share": 0}
    plan = plan_of(**options)
    forced = await run(plan, tmp_path / "forced", engines_of(plan, tmp_path, bf16=-0.1))
    free = await run(plan_of(**options), tmp_path / "free", ScriptedEngines(Oracle(plan)))
    more = forced.variants["bf16"].planned_hit_tokens - free.variants["bf16"].planned_hit_tokens
    assert more == sum((len(sample.prompt) - 1) // 16 * 16 for sample in plan.samples)


async def test_what_could_not_be_forced_is_asked_again_like_other_errors(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"], samples=3, tasks=["niah_single"], aa_share=0)
    engines = engines_of(plan, tmp_path, bf16=-0.1)
    folder, force = engines.force["bf16"]
    last = [text.token_ids.tolist() for text in plan.references[list(plan.references)[-1]].texts]
    lost = forcing(folder, leaves_result=False)
    engines.force["bf16"] = (
        folder,
        lambda body: (lost if body["vllm_xargs"]["kveval_targets"] in last else force)(body),
    )
    await run(plan, tmp_path / "run", engines)
    kinds = [r.expected_error.kind for r in records(tmp_path / "run", "bf16") if r.expected_error]
    assert kinds == ["no_result"]

    engines.force["bf16"] = (folder, force)
    for retry_errors, forced in ((False, 2), (True, 3)):
        await run(plan, tmp_path / "run", engines, resume=True, retry_errors=retry_errors)
        assert sum(r.expected is not None for r in records(tmp_path / "run", "bf16")) == forced


async def test_the_orders_of_a_list_are_forced_together_within_the_limit(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(
        variants=["bf16"], samples=1, questions_per_haystack=1, tasks=["niah_multivalue"], context_lengths=[2048],
        aa_share=0, requests={"max_in_flight": 6},
    )  # fmt: skip
    sample = plan.samples[0]
    reader = CountingReader()
    asker = ExpectedAsker(plan.references, reader, plan.config.requests.max_in_flight)
    record = make_record(sample_row(sample), "bf16", "correct", "x")
    done = await asker.complete(record, sample)
    assert done.expected is not None
    assert len(done.expected.token_ids) == 24
    assert reader.most_running == 6


class CountingReader:
    """Reads every text at a probability of one per token, and counts how many it reads at once."""

    method: ExpectedMethod = "forced_decode"
    temperature, most_tokens = 1.0, None

    def __init__(self) -> None:
        self.running = self.most_running = 0

    def requests(self, tokens: int) -> int:
        return tokens

    async def logprobs(self, prompt_ids: np.ndarray, token_ids: Sequence[int]) -> np.ndarray:
        assert len(prompt_ids)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0.001)
        self.running -= 1
        return np.zeros(len(token_ids), np.float32)
