from __future__ import annotations

import pytest

from kveval.tasks.scoring.unknown_markers import marker_at_start


@pytest.mark.parametrize(
    ("output", "marker"),
    [
        ("<reflect>It is 1", "<reflect>"),
        ("<|inner|>It is 1", "<|inner|>"),
        (" [PLAN] first", "[PLAN]"),
        ("analysisWe need 1", "analysis"),
        ("Reasoning\n\nIt is 1", "Reasoning"),
        ("**Thinking:** it is 1", "**Thinking:"),
        ("Here is my draft: 1", "Here is my draft:"),
    ],
)
def test_what_may_mark_thinking_is_named(output: str, marker: str) -> None:
    assert marker_at_start(output) == marker


@pytest.mark.parametrize(
    "output",
    ["It is 1", "1234", "```python", "[1] a", "[A] b", "<tool_call>{", "<answer>1", "getWeather", "I think: 1",
     "<html>", '{"a": 1}', '[{"name": "f"}]', "", "a < b"],
)  # fmt: skip
def test_an_answer_begins_with_no_marker(output: str) -> None:
    assert marker_at_start(output) is None
