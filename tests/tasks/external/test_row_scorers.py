from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from support import DATA

from kveval.tasks.external import row_scorers
from kveval.tasks.external.row_scorers import LONGEST_PATTERN, SCORERS, score_row
from kveval.tasks.outcome import classify

ROWS = yaml.safe_load((DATA / "row_answers.yaml").read_text(encoding="utf-8"))


def doc_of(row: dict[str, Any]) -> dict[str, Any]:
    answers = row["answers"] if "answers" in row else [row["answer"]]
    return {"scorer": row["scorer"], "answers": [SCORERS[row["scorer"]].reference(answer) for answer in answers]}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['scorer']}: {row['text'][:30]!r}")
def test_tricky_answers(row: dict[str, Any]) -> None:
    metrics = score_row(doc_of(row), row["text"])
    assert metrics["score"] == row["score"]
    assert metrics.get("valid", 1) == row.get("valid", 1)


def test_every_scorer_has_answers_to_check_it() -> None:
    assert {row["scorer"] for row in ROWS} == {name for name, scorer in SCORERS.items() if scorer.reference}


@pytest.mark.parametrize("pattern", [r"(a|aa)+$", r"(x+x+)+y", r"(?:a{1,100}){1,100}b"])
def test_a_search_that_never_ends_is_given_up(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_scorers, "PATTERN_SECONDS", 0.2)
    doc = doc_of({"scorer": "regex", "answer": pattern})
    text = "x" * 60 + "a" * 200 + "!"
    started = time.monotonic()
    metrics = score_row(doc, text)
    assert time.monotonic() - started < 20
    assert metrics["score"] == 0
    if metrics["valid"] == 0:
        assert classify(text, "stop", metrics, doc) == "invalid_format"


def test_a_pattern_that_takes_too_long_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_scorers, "PATTERN_SECONDS", 0.2)
    assert score_row(doc_of({"scorer": "regex", "answer": r"(x+x+)+y"}), "x" * 2000) == {"score": 0.0, "valid": 0.0}


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" * 900 + "]" * 900, '{"a":' * 100_000, "{" * 2000, "[" * 2000 + "1"]
)
def test_hostile_json_scores_nothing(text: str) -> None:
    metrics = score_row(doc_of({"scorer": "json", "answer": {"a": 1}}), text)
    assert metrics["score"] == 0


@pytest.mark.parametrize(
    ("scorer", "answer", "says"),
    [
        ("contains", "", "use: text"),
        ("contains", "  ", "use: text"),
        ("contains", "+-", "letter or digit"),
        ("contains", None, "text or a number"),
        ("contains", True, "text or a number"),
        ("exact", ["a"], "text or a number"),
        ("exact", " ", "use: text"),
        ("json", "{a: 1}", "a JSON value, or a string that holds one"),
        ("regex", "(", "not a regular expression: "),
        ("regex", "", f"1 to {LONGEST_PATTERN}"),
        ("regex", "a" * (LONGEST_PATTERN + 1), f"1 to {LONGEST_PATTERN}"),
        ("regex", "(" * 499 + ")" * 499, "not a regular expression: "),
    ],
)
def test_answers_nobody_could_give_are_refused(scorer: str, answer: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        SCORERS[scorer].reference(answer)


def test_a_row_that_is_not_scored_has_its_own_outcome() -> None:
    doc = {"scorer": "none", "scored": False, "answers": []}
    assert score_row(doc, "anything") == {}
    assert classify("anything", "stop", {}, doc) == "unscored"
    assert classify("It is not stated.", "length", {}, doc) == "unscored"
    assert classify(" ", "stop", {}, doc) == "empty"
    assert classify("", "length", {}, doc) == "truncated"
    assert classify(None, None, {}, doc) == "engine_error"
