"""Puts together what a server that kveval did not launch says of itself, and what is only declared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kveval.config.endpoint import EndpointConfig
from kveval.engines.client.dialect import Dialect
from kveval.engines.metrics import cache_facts
from kveval.engines.variants import ResolvedVariant
from kveval.formats.registry import CACHE_DTYPES, is_unquantized
from kveval.run.facts import Facts


def attached_facts(
    variant: ResolvedVariant,
    endpoint: EndpointConfig,
    dialect: Dialect,
    *,
    version: str | None,
    metrics_text: str,
    served: Mapping[str, Any],
    answers_as: str | None,
    streams_as: str | None = None,
) -> Facts:
    """Returns the facts. What the server says wins over the configuration; `declared` lists what only the latter says.

    Args:
        version: the body of /version, None without one.
        served: the model's entry in /v1/models; `answers_as`: its name in answers; `streams_as`: in streams.
    """
    cache = cache_facts(metrics_text)
    established: dict[str, Any] = {
        "engine_version": _version(version, is_vllm=bool(cache)),
        "max_model_len": served.get("max_model_len"),
        **cache,
    }
    said = endpoint.declared.model_dump(exclude_none=True)
    if variant.kv_cache_dtype != "auto":
        said["effective_cache_dtype"] = variant.kv_cache_dtype
    # The checkpoint decides whether auto is a quantized cache, and which scales a cache with one per tensor has.
    reported = CACHE_DTYPES.get(cache.get("effective_cache_dtype") or "")
    if reported is not None and reported.name != "auto" and reported.scaling != "per_tensor":
        established["scales"] = reported.scaling
    if variant.kv_cache_dtype != "auto" and is_unquantized(variant.kv_cache_dtype):
        said["scales"] = "none"
    known = {key: value for key, value in established.items() if value is not None}
    declared = {key: value for key, value in said.items() if key not in known}
    lacks = [*dialect.lacks(), *([] if cache else ["metrics"])]
    return Facts(
        requested_cache_dtype=variant.kv_cache_dtype,
        storage="native",
        endpoint=endpoint.url,
        served_model=json.dumps(served, sort_keys=True),
        answers_as=answers_as,
        streams_as=None if streams_as == answers_as else streams_as,
        prompt_form=dialect.prompt,
        added_prompt_tokens=dialect.added_tokens,
        lacks=sorted(lacks),
        declared=sorted(declared),
        **known,
        **declared,
    )


def _version(body: str | None, *, is_vllm: bool) -> str | None:
    try:
        version = json.loads(body or "null")
    except ValueError:
        return None
    version = version.get("version") if isinstance(version, Mapping) else version
    if not isinstance(version, str) or not version:
        return None
    return f"vLLM {version}" if is_vllm else version
