from __future__ import annotations

from typing import Any

import pytest

from kveval.config.sweep import SweepConfig, validate_config
from kveval.config.variant import SHORTHANDS
from kveval.errors import ConfigError
from kveval.formats.registry import CACHE_DTYPES

MINIMAL: dict[str, Any] = {"model": "m", "variants": ["bf16"], "tasks": ["t"], "context_lengths": [512]}


def config(**changes: Any) -> SweepConfig:
    return validate_config(MINIMAL | changes)


@pytest.mark.parametrize("name", sorted(SHORTHANDS))
def test_every_shorthand_is_a_variant_of_its_name(name: str) -> None:
    variant = config(variants=["bf16", name] if name != "bf16" else ["bf16"]).variant(name)
    assert variant.name == name
    assert CACHE_DTYPES[variant.kv_cache_dtype].is_in_vllm


def test_a_dtype_that_kveval_does_not_know_is_left_to_planning() -> None:
    variant = config(variants=["bf16", {"name": "new", "kv_cache_dtype": "mxfp4"}]).variant("new")
    assert variant.kv_cache_dtype == "mxfp4"
    assert variant.is_quantized


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("mxfp4", r"'mxfp4' is not a variant; .*use \{name: NAME, kv_cache_dtype: mxfp4\}"),
        ({"name": "x", "kv_cache_dtype": "float32"}, "vLLM has no cache dtype 'float32'; use bfloat16"),
    ],
)
def test_a_variant_that_cannot_be_launched_is_refused(variant: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(variants=["bf16", variant])


@pytest.mark.parametrize(
    ("name", "quantized"),
    [("bf16", False), ("fp16", False), ("auto", False), ("fp8", True), ("int8", True), ("int4", True)],
)
def test_what_is_quantized(name: str, quantized: bool) -> None:
    variants = ["bf16", name] if name != "bf16" else ["bf16"]
    assert config(variants=variants).variant(name).is_quantized == quantized


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"name": "fp8", "control": "emulated"}, {"kv_cache_dtype": "fp8", "control": "emulated"}),
        ({"name": "int8", "engine_args": {"x": 1}}, {"kv_cache_dtype": "int8_per_token_head",
                                                     "emulate_where_missing": True, "engine_args": {"x": 1}}),
        ({"name": "mine", "emulate": {"format": "int8"}}, {"kv_cache_dtype": "bfloat16"}),
        ({"name": "mine", "kv_cache_dtype": "int8"}, {"kv_cache_dtype": "int8_per_token_head",
                                                      "emulate_where_missing": True, "name": "mine"}),
        ({"name": "fp8", "kv_cache_dtype": "fp8_e5m2"}, {"kv_cache_dtype": "fp8_e5m2", "name": "fp8"}),
    ],
)  # fmt: skip
def test_variants_as_mappings(given_: dict[str, Any], expected: dict[str, Any]) -> None:
    variant = config(variants=["bf16", given_]).variants[1]
    assert {key: getattr(variant, key) for key in expected} == expected
