from __future__ import annotations

import pytest

from kveval.tasks.scoring.thinking import answer_of


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("no thoughts", "no thoughts"),
        ("<think>a</think>b<think>c</think> d ", "d"),
        ("the template opened the block</think>\n\nd", "d"),
        ("<think>never closed", ""),
        ("<Reasoning>a</REASONING>d", "d"),
    ],
)
def test_an_answer_is_what_follows_the_last_thought(output, answer):
    assert answer_of(output) == answer
