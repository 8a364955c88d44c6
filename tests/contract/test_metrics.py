"""Names and labels of /metrics that `kveval.engines.metrics` reads."""

from __future__ import annotations

import pytest
from support.vllm_source import VLLMSource

from kveval.engines import metrics

NAMES = {*metrics._COUNTERS, *metrics._GAUGES}


@pytest.mark.parametrize("name", sorted(NAMES | {"vllm:cache_config_info"}))
def test_a_metric_has_its_name(vllm: VLLMSource, name: str) -> None:
    vllm.says("v1/metrics/loggers.py", f"^{name}$")


@pytest.mark.parametrize("name", sorted({*metrics._SPECULATION_COUNTERS, metrics._ACCEPTED_AT}))
def test_a_metric_of_speculation_has_its_name(vllm: VLLMSource, name: str) -> None:
    vllm.says("v1/spec_decode/metrics.py", f"^{name}$")


def test_accepted_tokens_are_labelled_by_position(vllm: VLLMSource) -> None:
    vllm.says("v1/spec_decode/metrics.py", "^position$")


def test_what_the_cache_says_of_itself(vllm: VLLMSource) -> None:
    # The labels are the fields of the configuration (`metrics_info`).
    fields = {
        "cache_dtype", "block_size", "enable_prefix_caching", "kv_cache_dtype_skip_layers", "kv_cache_size_tokens",
        "metrics_info",
    }  # fmt: skip
    assert fields <= vllm.members("config/cache.py", "CacheConfig")
