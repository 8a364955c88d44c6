from __future__ import annotations

import pytest

from kveval.engines.counter_log import CounterLog


def page(hits: object, *, queries: object = 1000, started: float | None = None) -> str:
    text = (
        "# TYPE vllm:prefix_cache_hits_total counter\n"
        f'vllm:prefix_cache_hits_total{{engine="0"}} {hits}\n'
        "# TYPE vllm:prefix_cache_queries_total counter\n"
        f"vllm:prefix_cache_queries_total {queries}\n"
    )
    return text if started is None else f"process_start_time_seconds {started!r}\n{text}"


def log_of(*pages: str) -> CounterLog:
    log = CounterLog()
    for number, text in enumerate(pages):
        log.read(text, 10 * number)
    return log


def messages(log: CounterLog) -> dict[str, str]:
    return {finding.code: finding.message for finding in log.findings()}


def test_what_counters_rose_by_over_all_readings() -> None:
    log = log_of(page(5), page(7), page(20, queries=1500))
    assert log.added == {"prefix_cache_hits": 15.0, "prefix_cache_queries": 500.0}
    assert log.is_continuous
    assert messages(log) == {}


def test_counters_that_start_again_are_said_and_count_from_there() -> None:
    log = log_of(page(5_000_000, queries=5_000_000), page(5_000_010, queries=5_000_100), page(0, queries=0), page(4))
    assert log.added == {"prefix_cache_hits": 14.0, "prefix_cache_queries": 1100.0}
    assert not log.is_continuous
    assert "started again between answer 10 and answer 20: it was restarted" in messages(log)["counters_reset"]


def test_a_restart_is_seen_even_if_no_counter_fell() -> None:
    log = log_of(page(5, started=1.79e9), page(9, queries=2000, started=1.79e9 + 60))
    assert log.added == {"prefix_cache_hits": 9.0, "prefix_cache_queries": 2000.0}
    assert "counters_reset" in messages(log)
    assert messages(log_of(page(5, started=1.79e9), page(9, started=1.79e9))) == {}


@pytest.mark.parametrize("gone", ["", "<html><body>vllm: gone</body></html>", "not found", "vllm:"])
def test_metrics_that_disappear_are_said(gone: str) -> None:
    log = log_of(page(5), page(9), gone, gone)
    assert log.added["prefix_cache_hits"] == 4.0
    assert not log.is_continuous
    assert "no vLLM metrics from answer 20 on (2 of 4 readings)" in messages(log)["metrics_lost"]
    assert messages(log_of(gone, gone)) == {}


def test_metrics_that_come_back_go_on_and_the_gap_is_said() -> None:
    log = log_of(page(5), "<html>", page(9))
    assert log.added["prefix_cache_hits"] == 4.0
    assert "(1 of 3 readings)" in messages(log)["metrics_lost"]


def test_a_server_whose_metrics_come_late_is_counted_from_there() -> None:
    log = log_of("", page(5_000), page(5_009))
    assert log.added["prefix_cache_hits"] == 9.0
    assert messages(log) == {}


@pytest.mark.parametrize(
    "value", ["NaN", "+Inf", "-Inf", "1e400", "9" * 400, "9" * 6000, "-5", "abc", "", "1_0", "0x10"]
)
@pytest.mark.parametrize("when", [0, 1, 2])
def test_a_value_that_counts_nothing_is_no_value(value: str, when: int) -> None:
    pages = [page(5), page(6, queries=1100), page(7, queries=1200)]
    pages[when] = page(value, queries=1000 + 100 * when)
    log = log_of(*pages)
    assert log.added == {"prefix_cache_queries": 200.0}
    assert log.is_continuous
    assert "prefix_cache_hits" in messages(log)["metrics_unreadable"]
