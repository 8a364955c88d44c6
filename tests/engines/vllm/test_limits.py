"""What is refused before a night on a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.model_configs import DENSE
from support.variants import variant

from kveval.engines.variants import Device
from kveval.engines.vllm.limits import check_logging, check_skipped, check_storage, pinned_backend
from kveval.errors import PlanError
from kveval.models.checkpoint import Model, read_model

H100, A100, B200 = (Device("cuda", architecture=name) for name in ("sm_90", "sm_80", "sm_100"))
RTX4090, TURING, MI300 = Device("cuda", architecture="sm_89"), Device("cuda", architecture="sm_75"), Device("rocm")


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return made(tmp_path)


def made(folder: Path, **changes: Any) -> Model:
    (folder / "config.json").write_text(json.dumps({**DENSE, **changes}))
    return read_model(folder)


def refused(dtype: str, model: Model, device: Device, **flags: Any) -> str | None:
    asked = variant("x", device=device, kv_cache_dtype=dtype)
    try:
        check_storage(asked, model, flags, device)
    except PlanError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("dtype", "device", "flags"),
    [
        ("fp8_e5m2", H100, {}),
        ("fp8_e5m2", A100, {}),
        ("fp8_e5m2", H100, {"attention-backend": "FLASHINFER"}),
        ("fp8", A100, {}),
        ("fp8", MI300, {}),
        ("int8_per_token_head", A100, {}),
        ("fp8_per_token_head", RTX4090, {}),
        ("bfloat16", B200, {}),
        ("turboquant_4bit_nc", H100, {}),
        # What kveval does not know is left to vLLM.
        ("fp8", TURING, {}),
        ("fp8_e5m2", Device("cuda"), {}),
        ("fp8", H100, {"attention-backend": "MINE"}),
    ],
)
def test_what_is_launched(model: Model, dtype: str, device: Device, flags: dict[str, Any]) -> None:
    assert refused(dtype, model, device, **flags) is None


@pytest.mark.parametrize(
    ("dtype", "device", "flags", "message"),
    [
        (
            "fp8_e5m2", B200, {},
            "no attention backend of vLLM stores 'fp8_e5m2' for this model on blackwell (sm_100); use: ",
        ),
        (
            "fp8_e5m2", H100, {"attention-backend": "TRITON_ATTN"},
            "the attention backend TRITON_ATTN does not store 'fp8_e5m2' for this model on hopper (sm_90); use: ",
        ),
        ("fp8_e5m2", MI300, {}, "vLLM reads a cache of 'fp8_e5m2' as fp8_e4m3 on this device (rocm); use: fp8"),
        ("fp8_per_token_head", A100, {}, "no attention backend of vLLM stores 'fp8_per_token_head' for this model"),
        ("int8_per_token_head", H100, {"attention-backend": "flash_attn"}, "the attention backend FLASH_ATTN does not"),
        ("fp8_ds_mla", H100, {}, "no attention backend of vLLM stores 'fp8_ds_mla' for this model"),
        ("nvfp4_4over6", H100, {}, "no attention backend of vLLM stores 'nvfp4_4over6'"),
    ],
)  # fmt: skip
def test_what_is_refused(model: Model, dtype: str, device: Device, flags: dict[str, Any], message: str) -> None:
    said = refused(dtype, model, device, **flags)
    assert said is not None
    assert said.startswith(f"variants.x: kv_cache_dtype: {message}")
    assert ", or emulated: {name: NAME, emulate: {format: " in said


def test_heads_that_only_a_backend_takes_which_misreads_them(tmp_path: Path) -> None:
    # FlashInfer takes no heads of 80 values, and vLLM would go on to TRITON_ATTN.
    assert refused("fp8_e5m2", made(tmp_path, head_dim=80), H100) is not None
    assert refused("int8_per_token_head", made(tmp_path, head_dim=80), H100) is None


@pytest.mark.parametrize("method", ["fp8", "modelopt_fp4", "quark"])
def test_e5m2_is_not_for_a_checkpoint_in_fp8(tmp_path: Path, method: str) -> None:
    said = refused("fp8_e5m2", made(tmp_path, quantization_config={"quant_method": method}), H100)
    assert said is not None
    assert "a checkpoint that is quantized to FP8 itself; use: fp8" in said


def test_e5m2_is_for_a_checkpoint_with_quantized_weights(tmp_path: Path) -> None:
    assert refused("fp8_e5m2", made(tmp_path, quantization_config={"quant_method": "compressed-tensors"}), H100) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0, 3], None),
        ("3", None),
        (2, None),
        ([0, 4], "4 is no layer of this model with K and V; use: some of 0 1 2 3"),
        (["sliding_window"], "sliding_window is no layer of this model"),
        ("0 1", r"'0 1' is one word to vLLM, which then skips no layer; use: \[0, 1\]"),
    ],
)
def test_layers_that_would_be_quantized_all_the_same(model: Model, given: Any, message: str | None) -> None:
    flags = {"kv-cache-dtype-skip-layers": given}
    if message is None:
        check_skipped(variant("fp8", device=H100), model, flags)
        return
    with pytest.raises(PlanError, match=rf"variants\.fp8: kv-cache-dtype-skip-layers: {message}"):
        check_skipped(variant("fp8", device=H100), model, flags)


def test_layers_with_a_window_can_be_skipped_by_name(tmp_path: Path) -> None:
    windows = {"layer_types": ["sliding_attention", *["full_attention"] * 3], "sliding_window": 64}
    check_skipped(variant("fp8"), made(tmp_path, **windows), {"kv-cache-dtype-skip-layers": ["sliding_window"]})


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, None),
        ({"VLLM_LOGGING_LEVEL": "debug"}, None),
        ({"VLLM_LOGGING_LEVEL": "WARNING"}, "engine.env: VLLM_LOGGING_LEVEL: 'WARNING' hides .*; use: INFO, DEBUG"),
        ({"VLLM_CONFIGURE_LOGGING": "0"}, "engine.env: VLLM_CONFIGURE_LOGGING may hide .*; leave it out"),
    ],
)
def test_variables_that_would_hide_the_facts(environment: dict[str, str], message: str | None) -> None:
    if message is None:
        check_logging(environment, "engine.env")
        return
    with pytest.raises(PlanError, match=message):
        check_logging(environment, "engine.env")


@pytest.mark.parametrize(
    ("flags", "backend"),
    [
        ({}, None),
        ({"attention-backend": "auto"}, None),
        ({"attention-backend": "triton_attn"}, "TRITON_ATTN"),
        ({"attention-config": '{"backend": "FLASHINFER"}'}, "FLASHINFER"),
        ({"attention-config": "not JSON"}, None),
    ],
)
def test_the_backend_that_flags_name(flags: dict[str, Any], backend: str | None) -> None:
    assert pinned_backend(flags) == backend
