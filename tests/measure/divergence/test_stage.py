"""Every variant is made to write the baseline's texts, in whole sweeps against scripted servers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax
from support.forcing import forcing
from support.scripted import Oracle, Reply, ScriptedEngines
from support.sweeps import Planner, run

from kveval.judge.divergence.of_run import divergences
from kveval.judge.run_data import load_run
from kveval.measure.plan.plan import Plan
from kveval.run.divergence import DivergenceFolder

VOCABULARY = 1000
NOISE = {"bf16": 0.0, "bf16-aa": 0.0, "int8": 0.05, "fp8": 0.3}


def logits_of(variant: str, target: int) -> np.ndarray:
    """What a variant says before `target`."""
    logits = 4 * np.random.default_rng(target).standard_normal(VOCABULARY)
    noise: np.ndarray = NOISE[variant] * np.random.default_rng([target, 1]).standard_normal(VOCABULARY)
    return logits + noise


def engines_of(plan: Plan, folder: Path, output: str = "a b c d e f") -> ScriptedEngines:
    """Engines whose every step has logits. The baseline writes `output` after the prompts of texts."""
    engines = ScriptedEngines(Oracle(plan))
    answers, known = Oracle(plan), [text.prompt_ids.tolist() for text in plan.texts]

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        # What the baseline writes if nothing ends its output.
        return Reply(output) if body.get("ignore_eos") and prompt in known else answers(prompt, body)

    engines.handler = handler
    for variant in plan.variants:
        own = folder / variant.name
        own.mkdir()
        engines.force[variant.name] = (own, _force(own, variant.name))
    return engines


def _force(own: Path, name: str) -> Any:
    def reported(target: int) -> float:
        return float(log_softmax(logits_of(name, target))[target % VOCABULARY])

    return forcing(own, reported=reported, logits=lambda target: logits_of(name, target))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "own.txt"
    path.write_text("alpha beta gamma delta epsilon zeta eta theta")
    return path


def planned(plan_of: Planner, text: Path, **changes: Any) -> Plan:
    keys = {"samples": 2, "tokens": 6, "top_k": 16, "texts": [str(text)]}
    return plan_of(variants=["bf16", "int8", "fp8"], aa_share=1.0, divergence=keys, **changes)


async def test_every_variant_is_read_at_the_baselines_tokens(plan_of: Planner, text: Path, tmp_path: Path) -> None:
    plan = planned(plan_of, text)
    engines = engines_of(plan, tmp_path)
    manifest = await run(plan, tmp_path / "run", engines)
    assert manifest.status == "complete"
    folder = DivergenceFolder(tmp_path / "run")
    assert [one.kind for one in folder.texts()] == ["output", "output", "text"]
    for one in folder.texts():
        baseline = folder.read("bf16", one.text_id)
        assert baseline is not None
        targets = baseline.token_ids.tolist()
        for name in ("bf16", "bf16-aa", "int8", "fp8"):
            found = folder.read(name, one.text_id)
            assert found is not None
            whole = log_softmax(np.stack([logits_of(name, target) for target in targets]), axis=1)
            rows = np.arange(one.tokens)
            np.testing.assert_array_equal(found.token_ids, baseline.token_ids)
            np.testing.assert_allclose(found.kept_logprobs, whole[rows[:, None], baseline.kept_ids], rtol=1e-5)
            np.testing.assert_array_equal(found.argmax_ids, whole.argmax(axis=1))
            np.testing.assert_array_equal(found.ids_sha256, baseline.ids_sha256)
            rest = 1 - np.exp(found.kept_logprobs.astype(float)).sum(axis=1)
            np.testing.assert_allclose(np.exp(found.tail_logprobs), rest, atol=1e-5)
    for name in engines.force:
        assert list((tmp_path / name).iterdir()) == []

    found = {(one.variant, one.kind): one for one in divergences(load_run(tmp_path / "run"))}
    assert list(found) == [(name, kind) for kind in ("output", "text") for name in ("bf16-aa", "int8", "fp8")]
    for kind in ("output", "text"):
        means = [found[name, kind].summary for name in ("bf16-aa", "int8", "fp8")]
        aa, less, more = (one.kld_mean.value for one in means if one is not None)
        assert aa == 0 < less < more


async def test_an_output_may_have_thousands_of_tokens(plan_of: Planner, tmp_path: Path) -> None:
    count = 2048
    plan = plan_of(variants=["bf16", "fp8"], divergence={"samples": 1, "tokens": count, "top_k": 4})
    words = " ".join(f"w{number % 50}" for number in range(count))
    manifest = await run(plan, tmp_path / "run", engines_of(plan, tmp_path, words))
    assert manifest.status == "complete"
    found = next(one for one in divergences(load_run(tmp_path / "run")) if one.variant == "fp8")
    assert found.summary is not None
    assert (found.summary.tokens, found.summary.not_finite.total) == (count, 0)
    assert [one.last for one in found.by_position] == [16, 64, 256, 1024, 2048]
    assert found.summary.kld_mean.value is not None
    assert (found.summary.kld_mean.se, found.summary.kld_mean.reason) == (None, "no error: one context")


async def test_a_run_without_it_is_as_before(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    await run(plan, tmp_path / "run", ScriptedEngines(Oracle(plan)))
    assert not (tmp_path / "run" / "divergence").exists()
    assert divergences(load_run(tmp_path / "run")) == []


async def test_a_server_that_cannot_be_forced_is_said_and_the_run_is_complete(
    plan_of: Planner, text: Path, tmp_path: Path
) -> None:
    plan = planned(plan_of, text)
    manifest = await run(plan, tmp_path / "run", engines := ScriptedEngines(Oracle(plan)))
    assert manifest.status == "complete"
    for one in divergences(load_run(tmp_path / "run")):
        assert (one.compared, one.summary) == (0, None)
        assert one.planned > 0
    launched = len(engines.launches)
    await run(plan, tmp_path / "run", engines, resume=True)
    assert len(engines.launches) == launched


async def test_resume_reads_what_is_missing_or_broken_and_nothing_else(
    plan_of: Planner, text: Path, tmp_path: Path
) -> None:
    plan = planned(plan_of, text)
    engines = engines_of(plan, tmp_path)
    out = tmp_path / "run"
    await run(plan, out, engines)
    launched = list(engines.launches)
    before = {path: path.read_bytes() for path in sorted((out / "divergence").rglob("*.npz"))}

    await run(plan, out, engines, resume=True)
    assert engines.launches == launched

    gone, broken = (out / "divergence" / "fp8" / f"{one.text_id}.npz" for one in plan.texts[:2])
    gone.unlink()
    broken.write_bytes(b"nothing")
    await run(plan, out, engines, resume=True)
    assert engines.launches == [*launched, "fp8"]
    after = {path: path.read_bytes() for path in sorted((out / "divergence").rglob("*.npz"))}
    assert after.keys() == before.keys()
    assert [path for path in after if after[path] != before[path] and path not in (gone, broken)] == []
    folder = DivergenceFolder(out)
    assert all(folder.read("fp8", one.text_id) is not None for one in plan.texts)


async def test_a_step_without_numbers_is_counted_and_its_text_is_compared(
    plan_of: Planner, text: Path, tmp_path: Path
) -> None:
    plan = planned(plan_of, text)
    engines = engines_of(plan, tmp_path)
    own = plan.texts[-1].token_ids
    assert own is not None
    folder, _ = engines.force["fp8"]

    def logits(target: int) -> np.ndarray:
        return np.full(VOCABULARY, np.nan) if target == own[2] else logits_of("fp8", target)

    def reported(target: int) -> float:
        return float(log_softmax(logits(target))[target % VOCABULARY])

    engines.force["fp8"] = (folder, forcing(folder, reported=reported, logits=logits))
    await run(plan, tmp_path / "run", engines)
    found = {(one.variant, one.kind): one for one in divergences(load_run(tmp_path / "run"))}
    summary = found["fp8", "text"].summary
    assert summary is not None
    assert (found["fp8", "text"].compared, summary.tokens) == (1, 6)
    assert (summary.not_finite.variant, summary.kld_mean.value) == (1, None)
    assert found["fp8", "output"].summary is not None


async def test_a_text_that_fails_is_left_out_and_counted(plan_of: Planner, text: Path, tmp_path: Path) -> None:
    plan = planned(plan_of, text)
    engines = engines_of(plan, tmp_path)
    folder, force = engines.force["fp8"]
    own = plan.texts[-1].token_ids
    assert own is not None
    engines.force["fp8"] = (
        folder,
        lambda body: (
            'data: {"error": {"message": "no"}}\n\n'
            if body["vllm_xargs"]["kveval_targets"] == own.tolist()
            else force(body)
        ),
    )
    manifest = await run(plan, tmp_path / "run", engines)
    assert manifest.status == "complete"
    found = {(one.variant, one.kind): one for one in divergences(load_run(tmp_path / "run"))}
    assert (found["fp8", "text"].planned, found["fp8", "text"].compared) == (1, 0)
    assert found["fp8", "output"].compared == found["int8", "output"].compared == 2
    assert found["int8", "text"].compared == 1


@pytest.mark.parametrize("variant", ["bf16", "fp8"])
async def test_what_a_server_said_before_it_was_seen_to_change_is_set_aside(
    plan_of: Planner, text: Path, tmp_path: Path, variant: str
) -> None:
    plan, out = planned(plan_of, text), tmp_path / "run"
    engines = engines_of(plan, tmp_path)
    folder, force = engines.force[variant]

    def changes(body: dict[str, Any]) -> str:
        if body["vllm_xargs"]["kveval_top_k"] or "kveval_read_ids" in body["vllm_xargs"]:
            engines.servers[variant].version = "0.30.0"
        return force(body)

    engines.force[variant] = (folder, changes)
    manifest = await run(plan, out, engines)
    assert manifest.variants[variant].status == "stopped"
    assert {change.name for change in manifest.variants[variant].facts_changed} == {"engine_version"}
    assert list((out / "divergence" / variant).glob("*.npz")) == []
    assert len(list((out / "set_aside" / "divergence" / variant).glob("*.npz"))) == len(plan.texts)
    assert all(one.compared == 0 for one in divergences(load_run(out)) if variant in ("bf16", one.variant))

    for name in engines.force:
        shutil.rmtree(tmp_path / name)
    resumed = await run(plan, out, engines_of(plan, tmp_path), resume=True)
    assert resumed.status == "complete"
    assert all(one.compared == one.planned for one in divergences(load_run(out)))
