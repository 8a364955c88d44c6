from __future__ import annotations

from kveval.tasks.families.reasoning.scorers import steps_in_order

DOC = {"answers": [f"Step {k}: {k * 7}" for k in range(1, 9)]}


def test_the_score_goes_up_to_the_first_error_and_the_answer_looks_at_the_end():
    lines = list(DOC["answers"])
    lines[2] = "Step 3: 20"
    metrics = steps_in_order(DOC, ["<think>Step 3: 21</think>" + "\n".join(lines)])
    assert metrics == {"score": 0.25, "answer": 1, "score_q1": 1, "score_q2": 0.5, "score_q3": 1, "score_q4": 1}


def test_a_chain_shorter_than_four_steps_has_fewer_quarters():
    metrics = steps_in_order({"answers": ["Step 1: 7"]}, ["Step 1: 7"])
    assert metrics == {"score": 1, "answer": 1, "score_q4": 1}
