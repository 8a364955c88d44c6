"""Sizing a cache from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.model_configs import published_config

import kveval
from kveval.errors import UsageError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with the config.json of Llama-3.1-8B and no weights."""
    (tmp_path / "config.json").write_text(json.dumps(published_config("llama-3.1-8b")))
    return tmp_path


def test_a_folder_and_its_config_are_the_same_model(model: Path) -> None:
    sizes = kveval.estimate_memory(model, formats=["bf16", "fp8"], lengths=[4096])
    assert sizes == kveval.estimate_memory(str(model / "config.json"), formats=("bf16", "fp8"), lengths=[4096])
    # 128 KiB a token, and half of it.
    assert [row.lengths[0].sequence_bytes for row in sizes.formats] == [4096 << 17, 4096 << 16]
    assert [row.lengths[0].sequences for row in sizes.formats] == [None, None]


def test_what_fits_is_counted_where_memory_is_given(model: Path) -> None:
    sizes = kveval.estimate_memory(model, cache="4GiB", formats=["bf16"], lengths=[4096, 1 << 17])
    assert [length.sequences for length in sizes.formats[0].lengths] == [8, 0]


def test_a_wrong_format_is_named(model: Path) -> None:
    with pytest.raises(UsageError, match="fp9"):
        kveval.estimate_memory(model, formats=["fp9"])


def test_a_config_of_any_name_is_read_without_the_weights_beside_it(model: Path) -> None:
    sizes = kveval.estimate_memory(model, cache="4GiB", lengths=[4096])
    (model / "config.json").rename(model / "llama.json")
    (model / "model.safetensors").write_bytes(b"of another model")
    assert kveval.estimate_memory(model / "llama.json", cache="4GiB", lengths=[4096]) == sizes
    with pytest.raises(UsageError, match="--weights"):
        kveval.estimate_memory(model / "llama.json", memory="80GiB")
