"""The registry beside the source of the vLLM that is installed, which is read and not imported."""

from __future__ import annotations

import pytest

from kveval.formats.cache_dtype import CacheDtype
from kveval.formats.registry import (
    CACHE_DTYPES,
    CODECS,
    CPU_DTYPES,
    find_codec,
    find_dtype,
    is_same_format,
    is_unquantized,
)

ENTRIES = list(CACHE_DTYPES.values())


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_entry_is_consistent(entry: CacheDtype) -> None:
    assert entry.is_sized == (entry.unsized is None)
    assert entry.is_quantized == (entry.scales != "none")
    assert entry.same_as is None or CACHE_DTYPES[entry.same_as].rounding == entry.rounding
    assert not (entry.rounding and not entry.is_quantized)
    if entry.layout is not None:
        assert entry.layout.bits == entry.bits


def test_names_and_aliases_are_unique() -> None:
    names = [name for entry in ENTRIES for name in (entry.name, *entry.aliases)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "found"), [("bf16", "bfloat16"), ("int8", "int8_per_token_head"), ("fp8", "fp8"), ("f32", "float32")]
)
def test_a_dtype_is_found_by_name_and_alias(name: str, found: str) -> None:
    assert find_dtype(name) is CACHE_DTYPES[found]


def test_an_unknown_dtype_is_none_and_counts_as_quantized() -> None:
    assert find_dtype("mxfp4") is None
    assert not is_unquantized("mxfp4")


def test_what_stores_the_models_own_numbers() -> None:
    assert [name for name in CACHE_DTYPES if is_unquantized(name)] == ["auto", "bfloat16", "float16", "float32"]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [("fp8", "fp8_e4m3", True), ("fp8_e4m3", "fp8", True), ("fp8", "fp8_e5m2", False), ("mxfp4", "mxfp4", True),
     ("mxfp4", "fp8", False)],
)  # fmt: skip
def test_names_of_one_format(first: str, second: str, same: bool) -> None:
    assert is_same_format(first, second) == same


def test_what_the_cpu_engine_stores() -> None:
    assert CPU_DTYPES == ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2")


def test_codecs_by_name() -> None:
    assert {"int8", "int4", "int2", "fp8_e4m3", "fp8_e5m2"} <= set(CODECS)
    assert all(find_codec(name) is codec for name, codec in CODECS.items())


def test_an_unknown_codec_is_named_with_what_is_allowed() -> None:
    with pytest.raises(ValueError, match=r"'int9', did you mean 'int8'\? use: " + ", ".join(sorted(CODECS))):
        find_codec("int9")
