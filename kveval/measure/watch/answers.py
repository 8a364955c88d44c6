"""Says of the answers of a variant what a score alone hides: how they were read, and what could not be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from kveval.run.facts import Finding
from kveval.run.records import Record
from kveval.tasks.scoring.calls import UnreadableCallsError, calls_in
from kveval.tasks.scoring.reasoning import Markers, answer_in, answer_of, is_only_thinking
from kveval.tasks.scoring.text import VALUES
from kveval.tasks.scoring.unknown_markers import marker_at_start

_CODES = ("scorer_failed", "unknown_marker", "only_thinking", "calls_as_text")
# Of answers that begin in the same way, or only think.
_LEAST_ANSWERS = 3
_SHOWN_CHARACTERS = 60


def with_answers_judged(findings: Iterable[Finding], answers: Iterable[Finding]) -> list[Finding]:
    """Puts what the answers say now in place of what they said before."""
    return [*(finding for finding in findings if finding.code not in _CODES), *answers]


def answer_findings(
    records: Iterable[Record], *, tool_tasks: Collection[str] = (), markers: Sequence[Markers] = ()
) -> list[Finding]:
    """Returns what the records of a variant say about its answers.

    Args:
        tool_tasks: tasks that are asked through a chat endpoint with tools, so that calls are not text.
        markers: of thinking, which only this model has.
    """
    starts: Counter[str] = Counter()
    answers = thinking = 0
    failed, written = [], []
    for record in records:
        if record.error and record.error.kind == "scorer_failed":
            failed.append(record.error.message)
        if record.outcome == "engine_error" or not record.output.strip():
            continue
        answers += 1
        if _only_thinks(record):
            thinking += 1
        elif answer_in(record.output, markers) == record.output and (start := marker_at_start(record.output)):
            starts[start] += 1
        if record.task in tool_tasks and _writes_calls(record.output):
            written.append(record.output)
    return [*_failed(failed), *_unknown(starts, answers), *_thinking(thinking, answers), *_written(written)]


def _only_thinks(record: Record) -> bool:
    if record.outcome == "empty" and VALUES.words(record.output):
        return True
    return record.outcome in ("empty", "truncated", "truncated_thinking") and is_only_thinking(record.output)


def _writes_calls(output: str) -> bool:
    """Returns whether an output writes calls as text. What a server parsed is a JSON array of calls alone."""
    try:
        parsed = json.loads(output)
    except (ValueError, RecursionError):
        parsed = None
    calls = parsed if isinstance(parsed, list) else [None]
    if all(isinstance(call, dict) and call.keys() == {"name", "arguments"} for call in calls):
        return False
    try:
        return bool(calls_in(answer_of(output)))
    except UnreadableCallsError:
        return True


def _failed(messages: list[str]) -> list[Finding]:
    if not messages:
        return []
    message = f"outputs the scorer fails on, which count as invalid_format: {len(messages)}; the first: {messages[0]}"
    return [Finding.warning("scorer_failed", message)]


def _unknown(starts: Counter[str], answers: int) -> list[Finding]:
    found = [(start, count) for start, count in starts.most_common(1) if _are_most(count, answers)]
    return [
        Finding.warning(
            "unknown_marker",
            f"{count} of {answers} answers begin with {start!r}, which looks like a mark of thinking that kveval does "
            "not know: if thinking follows it, the thinking was scored with the answer; use: a server that splits "
            "thinking off, or a chat template without it",
        )
        for start, count in found
    ]


def _thinking(count: int, answers: int) -> list[Finding]:
    if not _are_most(count, answers):
        return []
    message = (
        f"{count} of {answers} answers are thinking without an answer, which counts as empty or truncated; use: a "
        "larger output budget, or chat_template_kwargs that turn thinking off"
    )
    return [Finding.warning("only_thinking", message)]


def _written(outputs: list[str]) -> list[Finding]:
    if not outputs:
        return []
    message = (
        f"answers that write calls as text where the server should have parsed them: {len(outputs)}; the first begins "
        f"with {outputs[0].strip()[:_SHOWN_CHARACTERS]!r}. They were read from the text as far as that is possible, "
        "but an application gets no calls; use: the tool parser of this model"
    )
    return [Finding.warning("calls_as_text", message)]


def _are_most(count: int, answers: int) -> bool:
    return count >= _LEAST_ANSWERS and count > answers / 2
