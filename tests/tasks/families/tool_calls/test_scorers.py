from __future__ import annotations

import json

import pytest
import yaml
from support import DATA

from kveval.tasks.families.tool_calls.scorers import called
from kveval.tasks.outcome import classify

TABLE = yaml.safe_load((DATA / "tool_answers.yaml").read_text())


def doc(question):
    expected = TABLE["questions"][question]
    names = {call["name"] for call in expected}
    return {
        "expected": json.dumps(expected),
        "functions": json.dumps([f for f in TABLE["functions"] if f["name"] in names]),
        "answers": ["no function"],
        "distractors": [],
        "absent": not expected,
    }


@pytest.mark.parametrize("row", TABLE["answers"], ids=lambda row: f"{row['question']}: {row['output']}"[:90])
def test_tricky_answers(row):
    metrics = called(doc(row["question"]), [row["output"]])
    assert classify(row["output"], row.get("finish_reason", "stop"), metrics, doc(row["question"])) == row["outcome"]
    assert metrics["score"] == (row["outcome"] == "correct")
    assert set(metrics) == {"score", "names", "valid", "abstained"}


def test_right_names_with_wrong_arguments_are_seen():
    metrics = called(doc("one"), ['{"name": "area_triangle", "arguments": {"base": 1, "height": 5}}'])
    assert metrics == {"score": 0.0, "names": 1.0, "valid": 1.0, "abstained": 0.0}


def test_hostile_outputs_are_read_too():
    for text in (
        "[" * 100_000,
        '{"name": ' * 50_000,
        "f(" * 5000,
        f"f(a={'[' * 3000}",
        "a_" * 20_000,
        "f(1)\n}" * 5000,
    ):
        metrics = called(doc("one"), [text])
        assert metrics["score"] == 0.0
