from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kveval.engines.metrics import cache_facts, counters, gauges


def test_gauges_are_read_from_metrics() -> None:
    text = (
        "# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_running{engine="1"} 1.0\n'
        'vllm:num_requests_waiting{engine="0"} 2.0\nvllm:num_requests_waiting_by_reason{reason="x"} 7.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
    )
    assert gauges(text) == {"running": 4.0, "waiting": 2.0, "kv_usage": 0.25}
    assert gauges("<html>") == {}


SPECULATION = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0"} 10.0
vllm:spec_decode_num_drafts_total{engine="1"} 30.0
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0"} 1.7e+09
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0"} 80.0
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 50.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 30.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 20.0
"""


def test_counters_of_drafts_are_summed_over_engines() -> None:
    assert counters(SPECULATION).values == {
        "spec_drafts": 40.0, "spec_draft_tokens": 80.0, "spec_accepted_tokens": 50.0, "spec_accepted_at_0": 30.0,
        "spec_accepted_at_1": 20.0,
    }  # fmt: skip


METRICS = """\
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",cache_dtype="fp8",enable_prefix_caching="True",engine="0",\
kv_cache_dtype_skip_layers="[]",kv_cache_max_concurrency="42.8",kv_cache_size_tokens="90112",num_gpu_blocks="704"} 1.0
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="kveval"} 61435.0
# HELP vllm:prompt_tokens_created Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{engine="0",model_name="kveval"} 1.7959728e+09
# HELP vllm:prompt_tokens_cached_total Number of cached prompt tokens.
# TYPE vllm:prompt_tokens_cached_total counter
vllm:prompt_tokens_cached_total{engine="0",model_name="kveval"} 50688.0
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="kveval"} 0.0
# HELP vllm:prefix_cache_hits_total Prefix cache hits, in terms of number of cached tokens.
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="kveval"} 20000.0
vllm:prefix_cache_hits_total{engine="1",model_name="kveval"} 30688.0
"""


def test_the_cache_as_metrics_tell_it() -> None:
    cache = cache_facts(METRICS)
    assert cache["effective_cache_dtype"] == "fp8"
    assert cache["kv_capacity_tokens"] == 90112


def test_what_several_engines_hold_is_summed() -> None:
    line = next(one for one in METRICS.splitlines() if one.startswith("vllm:cache_config_info"))
    two = METRICS.replace(line, line + "\n" + line.replace('engine="0"', 'engine="1"'))
    assert cache_facts(two)["kv_capacity_tokens"] == 2 * 90112
    untold = METRICS.replace(line, line + "\n" + line.replace('engine="0"', 'engine="1"').replace("90112", "None"))
    assert cache_facts(untold)["kv_capacity_tokens"] is None


def test_usage_of_several_engines_is_their_mean() -> None:
    lines = "".join(f'vllm:kv_cache_usage_perc{{engine="{engine}"}} {used}\n' for engine, used in enumerate((0.2, 0.6)))
    assert gauges("# TYPE vllm:kv_cache_usage_perc gauge\n" + lines)["kv_usage"] == pytest.approx(0.4)


def test_counters_are_summed_over_engines() -> None:
    assert counters(METRICS).values == {
        "prompt_tokens": 61435.0,
        "prompt_tokens_cached": 50688.0,
        "prompt_tokens_computed": 10747.0,
        "preemptions": 0.0,
        "prefix_cache_hits": 50688.0,
    }


@pytest.mark.parametrize("text", ["", "<html>", "a b c", 'x{y="', 'x{y="z"} nope', "# TYPE", "x{} 1 2 3 4", "\x00"])
def test_pages_that_are_no_metrics_tell_nothing(text: str) -> None:
    assert cache_facts(text) == {}
    assert counters(text).is_empty


@given(text=st.text(alphabet='vllm:cache_config_info{}="\\# TYPE\n 1.0', max_size=80))
def test_no_page_raises(text: str) -> None:
    cache_facts(text)
    counters("vllm:" + text)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "1e400", "9" * 400, "abc", ""])
def test_a_gauge_that_is_no_number_is_left_out(value: str) -> None:
    text = f"vllm:num_requests_running {value}\nvllm:num_requests_waiting 2\n"
    assert gauges(text) == {"waiting": 2.0}


@pytest.mark.parametrize("value", ["9" * 400, "NaN", "1e400", "-1", "", "९"])
def test_a_capacity_that_is_no_number_is_unknown(value: str) -> None:
    facts = cache_facts(f'vllm:cache_config_info{{kv_cache_size_tokens="{value}",cache_dtype="fp8"}} 1.0\n')
    assert facts["kv_capacity_tokens"] is None
    assert facts["effective_cache_dtype"] == "fp8"


def test_a_broken_line_costs_only_itself() -> None:
    text = (
        "# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total 7\n<b>502</b> {\n"
        "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{ 3\n"
    )
    found = counters(text)
    assert found.values == {"prompt_tokens": 7.0}
    assert found.unreadable == {"generation_tokens"}
