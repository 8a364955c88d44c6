"""Servers that already run: a variant that attaches to one, and the facts of what it says."""

from __future__ import annotations

from typing import Any

from kveval.config.endpoint import DeclaredConfig, EndpointConfig
from kveval.config.variant import VariantConfig
from kveval.engines.client.dialect import Dialect
from kveval.engines.openai.facts import attached_facts
from kveval.engines.variants import ResolvedVariant
from kveval.run.facts import Facts
from kveval.run.manifest import Role

VLLM = (
    'vllm:cache_config_info{block_size="16",cache_dtype="CACHE",enable_prefix_caching="True",'
    'kv_cache_size_tokens="2048",kv_cache_dtype_skip_layers="[]"} 1.0\n'
)


def variant(dtype: str, role: Role = "candidate", chat: Any = "none", **declared: Any) -> ResolvedVariant:
    endpoint = EndpointConfig(url="http://host", model="m", chat=chat, declared=DeclaredConfig(**declared))
    return ResolvedVariant("v", VariantConfig(name="v", endpoint=endpoint, kv_cache_dtype=dtype), dtype, None, role)


def facts(
    asked: ResolvedVariant, metrics: str = "", version: str | None = None, dialect: Dialect | None = None
) -> Facts:
    assert asked.config.endpoint
    return attached_facts(
        asked, asked.config.endpoint, dialect or Dialect(), version=version, metrics_text=metrics, served={"id": "m"},
        answers_as="m",
    )  # fmt: skip
