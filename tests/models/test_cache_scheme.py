"""Which cache format a checkpoint asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kveval.models.cache_scheme import checkpoint_cache_dtype, has_fp8_scales, leaves_scales_unread

FP8 = {"num_bits": 8, "type": "float", "dynamic": False, "strategy": "tensor", "symmetric": True}


@pytest.mark.parametrize(
    ("config", "dtype"),
    [
        ({}, None),
        ({"quantization_config": {"quant_method": "compressed-tensors", "kv_cache_scheme": FP8}}, "fp8"),
        ({"quantization_config": {"quant_method": "compressed-tensors", "kv_cache_scheme": None}}, None),
        ({"text_config": {"quantization_config": {"kv_cache_scheme": FP8}}}, "fp8"),
        ({"quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}}, "fp8_e4m3"),
        ({"quantization_config": {"quant_method": "modelopt", "kv_cache_scheme": FP8}}, "fp8_e4m3"),
        (
            {"quantization_config": {"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "NVFP4"}}},
            "nvfp4",
        ),
        ({"quantization_config": {"quant_method": "modelopt", "kv_cache_scheme": {**FP8, "num_bits": 4}}}, "nvfp4"),
        ({"quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "INT3"}}, None),
        ({"quantization_config": {"quant_method": "fp8", "kv_cache_quant_algo": "FP8"}}, None),
        ({"quantization_config": {"kv_cache_scheme": 7}}, None),
        ({"quantization_config": [1]}, None),
    ],
)
def test_what_vllm_makes_of_auto(tmp_path: Path, config: dict[str, Any], dtype: str | None) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert checkpoint_cache_dtype(tmp_path) == dtype


def test_modelopt_may_say_it_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    said = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(said))
    assert checkpoint_cache_dtype(tmp_path) == "fp8_e4m3"


@pytest.mark.parametrize(
    ("config", "scales"),
    [
        ({}, False),
        ({"quant_method": "fp8"}, True),
        ({"quant_method": "modelopt_fp4"}, True),
        ({"quant_method": "quark"}, True),
        ({"quant_method": "awq"}, False),
        ({"quant_method": "compressed-tensors"}, False),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": FP8}, True),
    ],
)
def test_checkpoints_whose_cache_vllm_takes_for_fp8(tmp_path: Path, config: dict[str, Any], scales: bool) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": config}))
    assert has_fp8_scales(tmp_path) == scales


@pytest.mark.parametrize(
    ("config", "unread"),
    [
        ({}, True),
        ({"quantization_config": {"quant_method": "awq"}}, True),
        ({"quantization_config": {"quant_method": "fp8"}}, False),
        ({"quantization_config": {"quant_method": "quark"}}, False),
        ({"quantization_config": {"quant_method": "compressed-tensors"}}, False),
    ],
)
def test_scales_that_vllm_does_not_load(tmp_path: Path, config: dict[str, Any], unread: bool) -> None:
    assert not leaves_scales_unread(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert leaves_scales_unread(tmp_path) == unread


def test_a_folder_that_cannot_be_read_asks_for_nothing(tmp_path: Path) -> None:
    assert checkpoint_cache_dtype(tmp_path / "nowhere") is None
