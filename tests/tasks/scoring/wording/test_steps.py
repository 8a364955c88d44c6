from __future__ import annotations

import pytest

from kveval.tasks.scoring.wording.steps import has_steps, steps_in

THREE = ["Step 1: 400", "Step 2: 417", "Step 3: 1417"]


def right(text: str, answers: list[str] = THREE) -> list[bool]:
    return [step.is_right for step in steps_in(answers, text)]


@pytest.mark.parametrize(
    "text",
    [
        "Step 1: 400\nStep 2: 417\nStep 3: 1417",
        "**Step 1**: 400\n**Step 2**: 400 + 17 = 417\n**Step 3**: 1,417.",
        "1. 400\n2. 417\n3. 1417\n1. 5",
        "| 1 | 400 |\n| 2 | 417 |\n| 3 | 1417 |",
    ],
)
def test_a_right_chain_is_read_however_it_is_written(text):
    assert right(text) == [True, True, True]


def test_a_missing_a_wrong_and_a_doubtful_step_are_not_right():
    assert right("Step 1: 400\nStep 3: 1417") == [True, False, True]
    assert right("Step 1: -400\nStep 2: 4170\nStep 3: 1417") == [False, False, True]
    assert right("Step 1: 400\nStep 1: 401\nStep 2: 417") == [False, True, False]
    assert right("") == [False, False, False]


def test_a_longer_name_or_another_order_is_another_value():
    assert right("Step 1: amber-fox-two", ["Step 1: amber-fox"]) == [False]
    assert right("Step 1: Amber\u2011Fox", ["Step 1: amber-fox"]) == [True]
    assert right("Step 1: 12 14 13", ["Step 1: 12 13 14"]) == [False]


def test_a_step_ends_where_its_line_ends():
    assert [step.end for step in steps_in(THREE, "Step 1: 400\nStep 3: 9")] == [11, None, 21]


def test_only_numbered_steps_are_steps():
    assert has_steps({"answers": THREE})
    assert not has_steps({"answers": ["400"]})
    assert not has_steps({"answers": ["Step 2: 400"]})
    assert not has_steps({})
