"""What a prefill costs, counted in questions: measured in an earlier run, or assumed."""

from __future__ import annotations

from collections.abc import Mapping

from kveval.run.directory import RunDirectory
from kveval.run.manifest import Manifest
from kveval.run.records import Record

# The words of a question around its haystack, in tokens.
_QUESTION_TOKENS = 64
# Decoding reads all weights for every token, and prefill once for many. With the requests that are in flight at once, a
# decoded token takes so many times as long as one of a prompt: a GPU computes faster than it reads, a CPU hardly.
_DECODING = {"cpu": 2, "gpu": 8}
# What is measured can be this share of all time at least: prefills and questions overlap.
_LEAST_SHARE = 0.05


def assumed_prefill(context_length: int, output_tokens: int, device: str | None) -> tuple[float, str]:
    """Returns what a prefill is assumed to cost, in questions, and the assumption in words.

    Only the lengths decide it: each token takes as many operations per parameter, whatever the model's size.
    """
    times = _DECODING["cpu" if device == "cpu" else "gpu"]
    cost = context_length / (_QUESTION_TOKENS + times * output_tokens)
    return cost, (
        f"assumed from its {context_length:,} tokens and the {output_tokens} of an answer, each of which takes as long "
        f"as {times} of a prompt"
    )


def measured_prefills(run: RunDirectory, manifest: Manifest) -> Mapping[int, float]:
    """Returns what a prefill cost the baseline of a run, in questions, by context length. Empty if that is not known.

    A prefill takes as long as the fastest first token of a question that was the first about its haystack, because
    others wait for requests before them. What is left of the time of asking is spent on the questions, equally on each.
    """
    baseline = manifest.variants[manifest.baseline]
    firsts: dict[str, Record] = {}
    questions = 0
    for record in run.records(manifest.baseline):
        if record.reused_from is not None:
            continue
        questions += 1
        first = firsts.get(record.haystack_id)
        if first is None or record.sent_at < first.sent_at:
            firsts[record.haystack_id] = record
    seconds: dict[int, float] = {}
    for one in firsts.values():
        if one.ttft_ms is not None and not one.arrived_at_once and not one.cached_tokens:
            taken = one.ttft_ms / 1000
            seconds[one.context_length] = min(taken, seconds.get(one.context_length, taken))
    total = baseline.asking_seconds
    if not total or not questions or any(one.context_length not in seconds for one in firsts.values()):
        return {}
    left = total - sum(seconds[one.context_length] for one in firsts.values())
    question = max(left, _LEAST_SHARE * total) / questions
    return {length: taken / question for length, taken in seconds.items()}
