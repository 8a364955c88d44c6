"""Turns one level into the figures that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from kveval.load.drive import Driven, Sent, outcome_of, outcomes_of
from kveval.run.facts import Finding
from kveval.run.load_results import Gauge, LevelResult, RequestRow, Spread


def summarize(driven: Driven) -> LevelResult:
    """Returns the figures of a level.

    Times are of completed requests, tokens of requests without an error, and outcomes of all requests.
    """
    level, seconds = driven.level, driven.duration_s
    rows = [_row(sent, outcome_of(sent, level)) for sent in sorted(driven.sent, key=lambda sent: sent.sent_s)]
    completed = [row for row in rows if row.outcome == "completed"]
    answered = [row for row in rows if row.outcome in ("completed", "short_output")]
    output = sum(row.output_tokens for row in answered)
    prompt = sum(row.prompt_tokens for row in answered)
    samples = driven.samples
    return LevelResult(
        level=level,
        outcomes=outcomes_of(driven.sent, level),
        warmup_outcomes=outcomes_of(driven.warmup, level),
        duration_s=round(seconds, 4),
        ttft_ms=Spread.of(row.ttft_ms for row in completed if row.ttft_ms is not None),
        itl_ms=Spread.of(row.itl_ms for row in completed if row.itl_ms is not None),
        gap_ms=Spread.of(gap for sent in driven.sent if outcome_of(sent, level) == "completed" for gap in _gaps(sent)),
        latency_ms=Spread.of(row.latency_ms for row in completed if row.latency_ms is not None),
        output_tokens=output,
        prompt_tokens=prompt,
        output_tokens_per_s=round(output / seconds, 3),
        total_tokens_per_s=round((output + prompt) / seconds, 3),
        requests_per_s=round(len(answered) / seconds, 4),
        running=Gauge.of(samples.running) if samples.running else None,
        waiting=Gauge.of(samples.waiting) if samples.waiting else None,
        kv_usage_percent=Gauge.of(100 * share for share in samples.kv_usage) if samples.kv_usage else None,
        preemptions=_counted(driven, "preemptions"),
        prefix_hit_tokens=_counted(driven, "prefix_cache_hits"),
        engine_rss_bytes=Gauge.of(samples.rss_bytes) if samples.rss_bytes else None,
        device_bytes=driven.device_bytes,
        findings=list(_findings(driven)),
        requests=rows,
    )


def _row(sent: Sent, outcome: str) -> RequestRow:
    answer = sent.answer
    times = answer.token_ms
    return RequestRow(
        outcome=outcome,
        sent_s=round(sent.sent_s, 4),
        prompt_tokens=sent.prompt_tokens if answer.prompt_tokens is None else answer.prompt_tokens,
        output_tokens=answer.output_tokens,
        ttft_ms=answer.ttft_ms,
        itl_ms=None if answer.itl_ms is None else round(answer.itl_ms, 4),
        latency_ms=times[-1] if times else answer.total_ms if outcome == "completed" else None,
    )


def _gaps(sent: Sent) -> Iterator[float]:
    times = [] if sent.answer.arrived_at_once else sent.answer.token_ms
    return (after - before for before, after in pairwise(times))


def _counted(driven: Driven, name: str) -> int | None:
    """Returns how much a counter of the server rose. None if that cannot be known."""
    rise = driven.counters.added.get(name) if driven.counters.is_continuous else None
    return None if rise is None else round(rise)


def _findings(driven: Driven) -> Iterator[Finding]:
    level = driven.level
    failed = {kind: count for kind, count in outcomes_of(driven.sent, level).items() if kind != "completed"}
    if failed:
        said = ", ".join(f"{count} {kind}" for kind, count in sorted(failed.items()))
        why = next((f": {s.answer.error_message[:200]}" for s in driven.sent if s.answer.error_message), "")
        yield Finding.warning("load_failures", f"{level.name}: of {level.requests} requests {said}{why}")
    at_once = sum(sent.answer.arrived_at_once for sent in driven.sent)
    if at_once:
        yield Finding.warning(
            "load_arrived_at_once",
            f"{level.name}: {at_once} of {len(driven.sent)} answers arrived at once and not token by token: something "
            "between server and client collects them, so they have no TTFT and no ITL",
        )
    hits, asked = _counted(driven, "prefix_cache_hits"), _counted(driven, "prefix_cache_queries")
    if hits:
        yield Finding.warning(
            "load_prefix_hits",
            f"{level.name}: {hits} of {asked} prompt tokens came from the prefix cache though every prompt is unique: "
            "times to the first token are too good",
        )
    for finding in driven.counters.findings():
        message = f"{level.name}: {finding.message}"
        yield Finding(level=finding.level, code=f"load_{finding.code}", message=message)
    preempted = _counted(driven, "preemptions")
    if preempted:
        message = f"{level.name}: {preempted} preemptions: the cache did not hold what was in flight"
        yield Finding.info("load_preempted", message)
