from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.external.echoes import echo_findings
from kveval.tasks.external.fixed_prompts import fixed_prompt_samples
from kveval.tasks.external.prompt_rows import read_prompts
from kveval.tasks.external.row_scorers import score_row
from kveval.tasks.outcome import classify
from kveval.tasks.sample import Sample


def samples(folder: Path, *rows: dict[str, Any]) -> list[Sample]:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return fixed_prompt_samples(read_prompts(path, "mine"), PromptFormat.stand_in(), ChatTemplate(folder, {}))


def tickets(count: int, **keys: Any) -> list[dict[str, Any]]:
    asks = "asks for a refund. Is it allowed, yes or no? Answer yes or no."
    return [
        {"prompt": f"Ticket {i}: customer {i * 7919} {asks}", "answer": "yes" if i % 2 else "no"} | keys
        for i in range(count)
    ]


@pytest.mark.parametrize("characters", [10, 40, 500])
def test_the_default_scorer_counts_answers_and_no_repetitions(tmp_path: Path, characters: int) -> None:
    rows = tickets(6)
    for row, one in zip(rows, samples(tmp_path, *rows), strict=True):
        echo = row["prompt"][-characters:]
        metrics = score_row(one.doc, echo)
        assert classify(echo, "stop", metrics, one.doc) == "wrong"
        assert score_row(one.doc, f"<think>{echo}</think>{row['answer'].title()}.")["score"] == 1


def test_rows_whose_question_names_their_answer_are_found(tmp_path: Path) -> None:
    [finding] = echo_findings(samples(tmp_path, *tickets(7), {"prompt": "The key is 7. What is the key?", "answer": 7}))
    assert (finding.level, finding.code) == ("info", "question_names_answer")
    assert "7 (rows.jsonl line 1, " in finding.message
    assert " and 2 more)" in finding.message


def test_a_scorer_that_counts_a_repetition_is_a_warning(tmp_path: Path) -> None:
    [finding] = echo_findings(samples(tmp_path, *tickets(2, scorer="regex")))
    assert (finding.level, finding.code) == ("warning", "echo_is_right")
    assert "use: exact" in finding.message
    [exact] = samples(tmp_path, {"prompt": "Yes or no?", "answer": "no", "scorer": "exact"})
    [unscored] = samples(tmp_path, {"prompt": "Yes or no?", "scorer": "none"})
    assert echo_findings([exact, unscored]) == []
