"""Cache dtypes and backends of vLLM, as kveval's registries state them."""

from __future__ import annotations

import pytest
from support.vllm_source import VLLMSource

from kveval.formats.backends import BATCH_INVARIANT, SUPPORT
from kveval.formats.registry import CACHE_DTYPES


def test_the_cache_dtypes_are_those_of_the_registry(vllm: VLLMSource) -> None:
    assert set(vllm.literal_of("config/cache.py", "CacheDType")) == {
        name for name, entry in CACHE_DTYPES.items() if entry.is_in_vllm
    }


@pytest.mark.parametrize("name", sorted({one.backend for one in SUPPORT} | set(BATCH_INVARIANT)))
def test_a_backend_that_stores_a_dtype_is_one(vllm: VLLMSource, name: str) -> None:
    assert name in vllm.members("v1/attention/backends/registry.py", "AttentionBackendEnum")
