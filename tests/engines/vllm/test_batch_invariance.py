"""Where a request can be computed alike in every batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.model_configs import DENSE, published_config
from support.variants import variant

from kveval.engines.variants import Device
from kveval.engines.vllm.batch_invariance import invariance_finding, why_not_invariant
from kveval.models.checkpoint import Model, read_model

H100, A100 = Device("cuda", architecture="sm_90"), Device("cuda", architecture="sm_80")


@pytest.fixture
def model(tmp_path: Path) -> Model:
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    return read_model(tmp_path)


@pytest.mark.parametrize(
    ("dtype", "device", "flags", "reason"),
    [
        ("bfloat16", H100, {}, None),
        ("fp8", H100, {}, None),
        ("int8_per_token_head", A100, {}, None),
        ("fp8", A100, {}, "no such attention backend stores fp8 for this model on ampere"),
        ("nvfp4", H100, {}, "no such attention backend stores nvfp4 for this model on hopper"),
        ("bfloat16", H100, {"attention-backend": "FLASHINFER"}, "the attention backend FLASHINFER is none of them"),
        ("bfloat16", H100, {"attention-backend": "TRITON_ATTN"}, None),
        ("bfloat16", Device("cpu"), {}, "the CPU engine has no such attention"),
        ("fp8", Device(None), {}, None),
    ],
)
def test_where_it_is_possible(
    model: Model, dtype: str, device: Device, flags: dict[str, Any], reason: str | None
) -> None:
    asked = variant("x", device=Device("cuda"), kv_cache_dtype=dtype)
    assert why_not_invariant(asked, model, flags, device) == reason


def test_recurrent_layers_have_no_such_kernels(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(published_config("qwen3-next-80b-a3b")))
    reason = why_not_invariant(variant("fp8"), read_model(tmp_path), {}, H100)
    assert reason == "the model's recurrent layers have no such kernels"


def test_what_a_reader_is_told() -> None:
    assert invariance_finding({"bf16": None, "fp8": None}).code == "batch_invariant"
    partial = invariance_finding({"bf16": None, "fp8": "no backend"})
    assert (partial.code, partial.level) == ("batch_invariant_partial", "warning")
    assert partial.message.startswith("bf16 computes a request alike in every batch; not fp8 (no backend): ")
    assert invariance_finding({"bf16": "no backend"}).level == "info"
