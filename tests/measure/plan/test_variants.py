from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from support.sweeps import Planner

from kveval.engines.base import Installation
from kveval.engines.variants import Device
from kveval.errors import PlanError
from kveval.load.plan import make_load_plan
from kveval.measure.plan.describe import describe
from kveval.measure.plan.plan import make_plan


def test_variants_in_launch_order(plan_of: Planner) -> None:
    plan = plan_of(variants=["int8", {"name": "fp8", "control": "emulated"}, "bf16"], aa_share=0.5)
    assert [(v.name, v.role, v.kv_cache_dtype, v.storage, v.of) for v in plan.variants] == [
        ("bf16", "baseline", "bfloat16", "native", None),
        ("bf16-aa", "aa", "bfloat16", "native", "bf16"),
        ("int8", "candidate", "bfloat16", "emulated", None),
        ("fp8", "candidate", "fp8", "native", None),
        ("fp8-control", "control", "bfloat16", "emulated", "fp8"),
    ]


def test_a_format_that_this_processor_lacks_is_emulated_if_asked_for_and_needs_no_control(
    plan_of: Planner, installation: Installation
) -> None:
    fp8 = {"name": "fp8", "control": "emulated", "emulate_where_missing": True}
    assert [v.name for v in plan_of(variants=["bf16", fp8], aa_share=0).variants] == ["bf16", "fp8", "fp8-control"]
    old = dataclasses.replace(installation, device=Device("cpu", frozenset({"avx2"})))
    plan = make_plan(plan_of(variants=["bf16", fp8], aa_share=0).config, old)
    assert [(v.name, v.storage, v.kv_cache_dtype) for v in plan.variants] == [
        ("bf16", "native", "bfloat16"),
        ("fp8", "emulated", "bfloat16"),
    ]
    assert any(
        "cannot store fp8, so fp8 is emulated, and needs no emulated control" in n for n in describe(plan)["notes"]
    )


def test_a_float16_checkpoint_gets_a_float16_cache(plan_of: Planner, checkpoint: Path) -> None:
    (checkpoint / "config.json").write_text('{"max_position_embeddings": 8192, "torch_dtype": "float16"}')
    plan = plan_of(variants=["bf16", "int8", {"name": "fp8", "control": "emulated"}], aa_share=0.5)
    assert {v.name: v.kv_cache_dtype for v in plan.variants} == {
        "bf16": "float16", "bf16-aa": "float16", "int8": "float16", "fp8": "fp8", "fp8-control": "float16",
    }  # fmt: skip
    plan = plan_of(variants=["bf16", "fp8"], engine={"args": {"dtype": "bfloat16"}})
    assert plan.variants[0].kv_cache_dtype == "bfloat16"


def test_on_a_gpu_every_variant_is_compared_without_graphs(plan_of: Planner, installation: Installation) -> None:
    config = plan_of(variants=["bf16", {"name": "fp8", "control": "emulated"}]).config
    gpu = dataclasses.replace(installation, device=Device("cuda"))
    assert [finding.code for finding in make_plan(config, gpu).findings] == ["eager_for_emulation"]
    graphs = config.model_copy(update={"engine": config.engine.model_copy(update={"args": {"enforce_eager": False}})})
    with pytest.raises(PlanError, match=r"variants\.bf16: enforce-eager: false .*leave out fp8's emulation"):
        make_plan(graphs, gpu)
    # A load measurement launches no controls.
    make_load_plan(graphs, gpu)


@pytest.mark.parametrize("written", ["0 1 27", "0, 1,27"])
def test_layers_in_one_text_would_skip_nothing(plan_of: Planner, written: str) -> None:
    one = {"name": "fp8", "engine_args": {"kv_cache_dtype_skip_layers": written}}
    with pytest.raises(
        PlanError,
        match=r"variants\.fp8: kv-cache-dtype-skip-layers: '0.* is one word .*; use: \[0, 1, 27\]$",
    ):
        plan_of(variants=["bf16", one])
    plan_of(variants=["bf16", {"name": "fp8", "engine_args": {"kv_cache_dtype_skip_layers": [0, 1, 27]}}])


def test_emulation_needs_the_plugin(plan_of: Planner, installation: Installation) -> None:
    config = plan_of(variants=["bf16", "int8"]).config
    with pytest.raises(PlanError, match=r"variants\.int8: emulation needs kveval's plugin"):
        make_plan(config, dataclasses.replace(installation, has_emulation=False))


def test_a_layer_the_model_does_not_have_is_refused(plan_of: Planner, checkpoint: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 30}))
    layered = {"name": "x", "emulate": {"format": "int4", "layers": [3, 999]}}
    with pytest.raises(PlanError, match=r"variants.x.emulate.layers: 999 is not a layer of the model; use: 0 to 29"):
        plan_of(variants=["bf16", layered])


def test_weights_that_were_not_fetched_are_named_before_an_engine_starts(plan_of: Planner, checkpoint: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:46\nsize 135\n"
    (checkpoint / "model.safetensors").write_text(pointer)
    with pytest.raises(
        PlanError, match=r"only Git LFS pointers for 1 weight files, such as model.safetensors; use `git"
    ):
        plan_of()
    # A server that runs already has its own weights.
    plan_of(variants=[{"name": "bf16", "endpoint": {"url": "http://127.0.0.1:1", "model": "m"}}])
