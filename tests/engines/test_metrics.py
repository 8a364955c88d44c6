from __future__ import annotations

from kveval.engines.metrics import gauges


def test_gauges_are_read_from_metrics() -> None:
    text = (
        "# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_running{engine="1"} 1.0\n'
        'vllm:num_requests_waiting{engine="0"} 2.0\nvllm:num_requests_waiting_by_reason{reason="x"} 7.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
    )
    assert gauges(text) == {"running": 4.0, "waiting": 2.0, "kv_usage": 0.25}
    assert gauges("<html>") == {}
