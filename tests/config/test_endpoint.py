"""Endpoints in a configuration: what is allowed, and that a refusal repeats no secret."""

from __future__ import annotations

from typing import Any

import pytest

from kveval.config.sweep import SweepConfig, validate_config
from kveval.errors import ConfigError

PLAIN = {"url": "http://host:8000", "model": "served"}


def config(*variants: Any, **keys: Any) -> SweepConfig:
    given = {"model": "m", "context_lengths": [1024], "tasks": ["niah_single"], "variants": list(variants)}
    return validate_config(given | {"baseline": "f16"} | keys)


def attached(name: str = "f16", **keys: Any) -> dict[str, Any]:
    return {"name": name, "endpoint": PLAIN, **keys}


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://host:8000/", "http://host:8000"),
        ("http://host:8000/v1/", "http://host:8000"),
        ("HTTPS://Host/llm/v1", "https://host/llm"),
        ("http://[::1]:80", "http://[::1]:80"),
    ],
)
def test_addresses(url: str, kept: str) -> None:
    endpoint = config(attached(endpoint={**PLAIN, "url": url})).variants[0].endpoint
    assert endpoint is not None
    assert endpoint.url == kept


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        ({**PLAIN, "url": "http://me:secret@host"}, "url: has credentials in it, which would be written down"),
        ({**PLAIN, "url": "http://secret@host"}, "url: has credentials in it"),
        ({**PLAIN, "url": "http://host/?key=secret"}, "url: has a query or a fragment"),
        ({**PLAIN, "url": "ftp://host/secret"}, "url: not an address of a web server; use http://host:port"),
        ({**PLAIN, "url": "host:8000"}, "url: not an address of a web server"),
        ({**PLAIN, "url": "http://"}, "url: not an address of a web server"),
        ({**PLAIN, "url": "http://host:secret"}, "url: not an address; use"),
        ({**PLAIN, "url": "file:///secret"}, "url: not an address of a web server"),
        ("http://me:secret@host", "endpoint: not a mapping; use {url: http://host:port, model: NAME}"),
        ({**PLAIN, "api_key": "secret"}, "unknown key 'variants.0.endpoint.api_key'; did you mean 'api_key_env'"),
        ({**PLAIN, "api_key_env": "sk-secret"}, "api_key_env: not the name of an environment variable"),
        ({"url": "http://host"}, "endpoint.model: required, not given"),
        ({**PLAIN, "declared": {"version": "1"}}, "unknown key 'variants.0.endpoint.declared.version'; did you mean"),
        ({**PLAIN, "declared": {"kv_capacity_tokens": 0}}, "kv_capacity_tokens: 0 is not allowed"),
        ({**PLAIN, "chat": "yes"}, "chat: 'yes' is not allowed"),
    ],
)
def test_refused_endpoints(endpoint: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(attached(endpoint=endpoint))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("variants", "keys", "message"),
    [
        ([attached(), "fp8"], {}, "f16 has an endpoint and fp8 has none: two engines would be compared"),
        ([attached(), attached("q8", kv_cache_dtype="q8_0")], {}, "f16 and q8 name the same url and model"),
        ([attached(engine_args={"max-num-seqs": 1})], {}, "engine_args: only servers that kveval launches have it"),
        ([attached(emulate={"format": "int8"})], {}, "emulate: only servers that kveval launches have it"),
        ([attached(control="emulated")], {}, "control: only servers that kveval launches have it"),
        ([attached()], {"engine": {"kv_cache_gib": 3}}, "engine: nothing is launched"),
        ([attached("prod")], {"baseline": "prod"}, "variants.0.kv_cache_dtype: required, not given"),
        ([attached(kv_cache_dtype="q8_0")], {}, "baseline: 'f16' is itself quantized"),
    ],
)
def test_refused_combinations(variants: list[Any], keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(*variants, **keys)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "dtype", "meant"),
    [("f16", None, "float16"), ("bf16", None, "bfloat16"), ("int8", None, "int8"), ("x", "q8_0", "q8_0"),
     ("x", "bf16", "bfloat16"), ("x", "int8", "int8"), ("fp8", None, "fp8")],
)  # fmt: skip
def test_what_a_cache_stores_may_be_spelled_as_its_engine_does(name: str, dtype: str | None, meant: str) -> None:
    given = attached(name, endpoint={**PLAIN, "model": "other"}, **({"kv_cache_dtype": dtype} if dtype else {}))
    both = [given] if name == "f16" else [attached(), given]
    variant = config(*both).variant(name)
    assert variant.kv_cache_dtype == meant
    assert not variant.emulate_where_missing


def test_a_written_configuration_is_read_back() -> None:
    made = config(attached(), attached("q8", kv_cache_dtype="q8_0", endpoint={**PLAIN, "model": "other"}))
    assert validate_config(made.model_dump(mode="json")) == made
    assert made.is_attached
