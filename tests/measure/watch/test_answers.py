from __future__ import annotations

from typing import Any

import pytest

from kveval.measure.watch.answers import answer_findings, with_answers_judged
from kveval.run.facts import Finding
from kveval.run.records import Record
from kveval.tasks.scoring.calls import calls_text
from kveval.tasks.scoring.reasoning import Markers

CALL = {"name": "refund", "arguments": {"order": 81}}


def record(output: str, outcome: str = "wrong", **keys: Any) -> Record:
    return Record(**{
        "sample_id": "s", "haystack_id": "h", "variant": "fp8", "task": "mine", "family": "own", "context_length": 1024,
        "depth_percent": None, "outcome": outcome, "score": 0.0, "output": output, "finish_reason": "stop",
        "prompt_tokens": 9, "cached_tokens": 0, "output_tokens": 3, "sent_at": 1.0, "ttft_ms": 1.0, "itl_ms": 1.0,
        "total_ms": 2.0, **keys,
    })  # fmt: skip


def test_an_unknown_marker_at_the_start_of_most_answers_is_named() -> None:
    records = [*(record(f"<reflect>{number}</reflect>7") for number in range(6)), *(record("7") for _ in range(4))]
    [finding] = answer_findings(records)
    assert (finding.level, finding.code) == ("warning", "unknown_marker")
    assert "6 of 10 answers begin with '<reflect>'" in finding.message


@pytest.mark.parametrize(
    "outputs",
    [
        ["<reflect>7"] * 5 + ["7"] * 5,
        ["<reflect>7"] * 2,
        ["<think>1</think>7"] * 10,
        ["[THINK]1[/THINK]<b>7</b>"] * 10,
        [calls_text([CALL])] * 10,
    ],
    ids=["half", "few", "known", "another known one", "calls"],
)
def test_anything_else_is_no_unknown_marker(outputs: list[str]) -> None:
    assert answer_findings(map(record, outputs)) == []


def test_a_marker_that_the_model_itself_names_is_known() -> None:
    markers = [Markers.of("the model's chat template", "<reflect>", "</reflect>")]
    assert answer_findings([record("<reflect>1</reflect>7")] * 5, markers=markers) == []


def test_answers_that_only_think_are_counted() -> None:
    records = [*[record("<think>it is 7", "truncated")] * 3, *[record("it is 7", "empty")] * 3, *[record("7")] * 4]
    [finding] = answer_findings(records)
    assert (finding.level, finding.code) == ("warning", "only_thinking")
    assert finding.message.startswith("6 of 10 answers are thinking without an answer")
    assert answer_findings([record("It is in the", "truncated")] * 9) == []


def test_calls_written_as_text_are_counted_where_a_server_should_parse_them() -> None:
    written = '<tool_call>\n{"name": "refund", "arguments": {"order": 81}}\n</tool_call>'
    unreadable = "<tool_call><function=refund><parameter=order>81</parameter></function></tool_call>"
    parsed = [record(calls_text([CALL])), record(calls_text([{"name": "refund", "arguments": "{broken"}]))]
    records = [*parsed, record("No call fits."), record(written), record(unreadable)]
    [finding] = answer_findings(records, tool_tasks={"mine"})
    assert (finding.level, finding.code) == ("warning", "calls_as_text")
    assert "parsed them: 2; the first begins with '<tool_call>" in finding.message
    assert answer_findings(records, tool_tasks={"other"}) == []


def test_what_answers_said_before_is_replaced() -> None:
    old = [Finding.warning("only_thinking", "old"), Finding.warning("scales_1", "kept")]
    assert with_answers_judged(old, []) == old[1:]
    assert with_answers_judged(old, [Finding.warning("unknown_marker", "new")])[0].code == "scales_1"
