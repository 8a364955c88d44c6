from __future__ import annotations

import json

import pytest
import yaml
from support import DATA

from kveval.tasks.families.code.scorers import function_named, line_completed, program_passes, value_named

ROWS = yaml.safe_load((DATA / "code_answers.yaml").read_text())
HELPER = "def merge_lantern(amber, *, crisp):\n    return amber * 37 + crisp"
TESTS = [{"values": [1, 2], "returns": [42, 79]}, {"values": [10], "returns": [375]}]
PROGRAM = {
    "answer_lead": "\n```python\ndef solve(values):",
    "module": "django.utils.harbor",
    "helper": HELPER,
    "tests": json.dumps(TESTS),
}


@pytest.mark.parametrize("row", ROWS["value_named"], ids=lambda row: row["output"])
def test_values(row):
    doc = {"answers": [row["answer"]], "distractors": row.get("distractors", [])}
    assert value_named(doc, [row["output"]]) == {"score": row["score"]}


@pytest.mark.parametrize("row", ROWS["function_named"], ids=lambda row: row["output"])
def test_functions(row):
    question = row.get("question", "Which function?")
    doc = {"answers": [row["answer"]], "distractors": row.get("distractors", []), "question": question}
    assert function_named(doc, [row["output"]]) == {"score": row["score"]}


@pytest.mark.parametrize("row", ROWS["line_completed"], ids=lambda row: row["output"])
def test_lines(row):
    metrics = line_completed({"answers": [row["answer"]], "answer_lead": "def merge_lantern("}, [row["output"]])
    assert metrics["score"] == row["score"]
    assert metrics["valid"] == row.get("valid", 1)
    assert 0 <= metrics["edit_similarity"] <= 1


def test_edit_similarity_tells_near_from_far():
    doc = {"answers": ["amber_falcon, crisp_oak=None):"], "answer_lead": "def merge_lantern("}
    near, far = (line_completed(doc, [text])["edit_similarity"] for text in ("amber_falcon, crisp_oak):", "*args):"))
    assert far < 0.3 < 0.8 < near < 1


@pytest.mark.parametrize(
    ("output", "metrics"),
    [
        ("def solve(values):\n    return [merge_lantern(v, crisp=5) for v in values]", (1, 1, 1)),
        (
            "```python\nfrom django.utils.harbor import merge_lantern\n\n"
            "def solve(values):\n    return [merge_lantern(v, crisp=5) for v in values]\n```",
            (1, 1, 1),
        ),
        (f"{HELPER}\n\ndef solve(values):\n    return [merge_lantern(v, crisp=5) for v in values]", (1, 1, 1)),
        ("\n    return [merge_lantern(v, crisp=5) for v in values]\n", (1, 1, 1)),
        ("FIVE = 5\ndef solve(values):\n    return [merge_lantern(v, crisp=FIVE) for v in values]", (1, 1, 1)),
        ("import array, cmath\ndef solve(values):\n    return [merge_lantern(v, crisp=5) for v in values]", (1, 1, 1)),
        ("import numpy\ndef solve(values):\n    return [merge_lantern(v, crisp=5) for v in values]", (0, 0, 1)),
        ("def solve(values):\n    return [42, 79]", (0, 0.5, 1)),
        ("def solve(values):\n    return [merge_lantern(v, 5) for v in values]", (0, 0, 1)),
        ("def solve(values):\n    return [fold_harbor(v, crisp=5) for v in values]", (0, 0, 1)),
        ("def solve(values):\n    return [float(merge_lantern(v, crisp=5)) for v in values]", (0, 0, 1)),
        ("def solve(values):\n    return {merge_lantern(v, crisp=5) for v in values}", (0, 0, 1)),
        ("def solve(values):\n    return values", (0, 0, 1)),
        ("def solve(values):\n    return [merge_lantern(v, crisp=5 for v in values]", (0, 0, 0)),
        ("not stated", (0, 0, 0)),
    ],
)  # fmt: skip
def test_programs_are_run(output, metrics):
    assert tuple(program_passes(PROGRAM, [output]).values()) == metrics


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["1.", "a.", "a::", "a/", "f(", "_a"])
def test_a_degenerate_output_is_read_in_little_time(piece):
    doc = {"answers": ["merge_lantern"], "distractors": [], "question": "Which function?"}
    assert function_named(doc, [piece * 10_000]) == {"score": 0}
