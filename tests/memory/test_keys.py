from __future__ import annotations

from typing import Any

import pytest

from kveval.errors import ConfigError
from kveval.memory.keys import Keys


def keys(**config: Any) -> Keys:
    return Keys.of(config, "config.json")


def test_the_language_part_of_a_multimodal_model_is_read() -> None:
    found = keys(model_type="llava", text_config={"model_type": "llama", "num_hidden_layers": 3})
    assert found.model_type == "llama"
    assert found.required("num_hidden_layers") == 3


def test_a_key_left_out_has_the_default_of_its_class_and_null_has_none() -> None:
    assert keys(model_type="mistral").optional("sliding_window") == 4096
    assert keys(model_type="mistral", sliding_window=None).optional("sliding_window") is None


def test_the_first_name_that_is_set_counts() -> None:
    assert keys(n_layer=2, n_layers=3).required("num_hidden_layers", "n_layer", "n_layers") == 2


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "4", []])
def test_a_value_that_is_not_a_positive_integer_is_named(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"config\.json: n_layer: .* cannot be used; use a positive integer"):
        keys(n_layer=value).required("n_layer")


def test_a_required_key_is_named_with_its_other_names() -> None:
    with pytest.raises(ConfigError, match=r"config\.json: n_layer \(or n_layers\): required to size the cache"):
        keys().required("n_layer", "n_layers")


@pytest.mark.parametrize(
    ("config", "size"),
    [({}, 2), ({"dtype": "float32"}, 4), ({"torch_dtype": "torch.float16"}, 2), ({"mamba_ssm_dtype": "float32"}, 4)],
)
def test_bytes_of_the_first_dtype_set(config: dict[str, str], size: int) -> None:
    assert keys(**config).dtype_bytes("mamba_ssm_dtype") == size
