"""What a model computes in, as vLLM decides it."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from kveval.models.checkpoint import Model, read_model
from kveval.models.dtype import compute_dtype

TURING = ("float16", "float32")


def model(folder: Path, weights: tuple[str, ...] = (), **config: Any) -> Model:
    (folder / "config.json").write_text(json.dumps(config))
    header = {f"t{n}": {"dtype": one, "shape": [], "data_offsets": [0, 4]} for n, one in enumerate(weights)}
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(4))
    return read_model(folder)


@pytest.mark.parametrize(
    ("config", "dtype"),
    [
        ({"torch_dtype": "float16", "quantization_config": {"quant_method": "awq"}}, "float16"),
        ({"dtype": "bfloat16"}, "bfloat16"),
        ({"dtype": "torch.float16"}, "float16"),
        ({"torch_dtype": "float32"}, "bfloat16"),
        ({"text_config": {"torch_dtype": "float16"}}, "float16"),
        ({"vision_config": {"torch_dtype": "float16"}}, "float16"),
        ({"model_type": "gemma2", "torch_dtype": "float16"}, "bfloat16"),
        ({}, "bfloat16"),
    ],
)
def test_the_config_says_it(tmp_path: Path, config: dict[str, Any], dtype: str) -> None:
    assert compute_dtype(model(tmp_path, **config)) == dtype


@pytest.mark.parametrize(
    ("weights", "dtype"), [(("F16", "I32"), "float16"), (("BF16",), "bfloat16"), (("F16", "F32"), "bfloat16")]
)
def test_the_weights_say_it_where_the_config_does_not(tmp_path: Path, weights: tuple[str, ...], dtype: str) -> None:
    assert compute_dtype(model(tmp_path, weights)) == dtype


@pytest.mark.parametrize(
    ("flag", "dtype"), [("half", "float16"), ("float", "float32"), ("auto", "bfloat16"), (None, "bfloat16")]
)
def test_the_flag_goes_first(tmp_path: Path, flag: str | None, dtype: str) -> None:
    assert compute_dtype(model(tmp_path, dtype="bfloat16"), flag) == dtype


def test_a_device_without_bfloat16_computes_in_float16(tmp_path: Path) -> None:
    assert compute_dtype(model(tmp_path, dtype="bfloat16"), None, TURING) == "float16"


def test_weights_that_cannot_be_read_say_nothing(tmp_path: Path) -> None:
    unreadable = model(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert compute_dtype(unreadable) is None
