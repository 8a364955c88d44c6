"""Cache dtypes and backends of vLLM, as kveval's registries state them."""

from __future__ import annotations

import ast

import pytest
from support.vllm_source import VLLMSource

from kveval.formats.backends import BATCH_INVARIANT, SUPPORT, Support
from kveval.formats.registry import CACHE_DTYPES

# Where a class names no dtypes, it takes those of AttentionBackend (vllm/v1/attention/backend.py) or of its base class.
INHERITED = {"FLASH_ATTN_DIFFKV": "FLASH_ATTN"}
# What a backend takes by another name: these models turn bfloat16 into auto, and `auto` is the model's own dtype.
BY_ANOTHER_NAME = {"FLASHINFER_MLA_SPARSE_SM120", "CPU_ATTN", "CPU_MLA"}
SINCE_0_33 = {"octave_k3v4", "octave_k3v3", "octave_k3v3_compact"}


def test_the_cache_dtypes_are_those_of_the_registry(vllm: VLLMSource) -> None:
    known = {name for name, entry in CACHE_DTYPES.items() if entry.is_in_vllm}
    theirs = set(vllm.literal_of("config/cache.py", "CacheDType"))
    assert theirs <= known
    assert known - theirs <= SINCE_0_33


@pytest.mark.parametrize("name", sorted({one.backend for one in SUPPORT} | set(BATCH_INVARIANT)))
def test_a_backend_that_stores_a_dtype_is_one(vllm: VLLMSource, name: str) -> None:
    assert name in vllm.members("v1/attention/backends/registry.py", "AttentionBackendEnum")


@pytest.mark.parametrize("support", SUPPORT, ids=lambda support: f"{support.backend}-{support.dtypes[0]}")
def test_a_backend_takes_what_its_entry_says(vllm: VLLMSource, support: Support) -> None:
    values, methods = vllm.backend(INHERITED.get(support.backend, support.backend))
    taken = set(ast.literal_eval(values["supported_kv_cache_dtypes"]))
    if support.backend in BY_ANOTHER_NAME:
        assert "auto" in taken
        taken |= {"bfloat16", "float16"}
    assert set(support.dtypes) <= taken
    sizes = methods.get("get_supported_head_sizes")
    if sizes is not None and support.head_sizes is not None:
        returned = next(one for one in ast.walk(sizes) if isinstance(one, ast.Return))
        assert returned.value is not None
        assert set(support.head_sizes) <= set(ast.literal_eval(returned.value))
