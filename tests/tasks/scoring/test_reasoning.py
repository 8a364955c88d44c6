from __future__ import annotations

import pytest
import yaml
from support import DATA

from kveval.tasks.families.needle.scorers import values_named
from kveval.tasks.outcome import classify
from kveval.tasks.scoring.reasoning import CHANNELS, TABLE, answer_in, answer_of, ends_thinking, is_only_thinking

ROWS = yaml.safe_load((DATA / "reasoning.yaml").read_text(encoding="utf-8"))
DOC = {"answers": ["1234567"], "distractors": ["7654321"], "absent": False}
FORMS = [
    "analysis{thinking}assistantfinal{answer}",
    "<|channel|>analysis<|message|>{thinking}<|end|><|start|>assistant<|channel|>final<|message|>{answer}<|return|>",
    "[THINK]{thinking}[/THINK]{answer}",
    "<seed:think>{thinking}</seed:think>{answer}",
    "<|channel>thought\n{thinking}<channel|>{answer}",
    "<|START_THINKING|>{thinking}<|END_THINKING|><|START_RESPONSE|>{answer}<|END_RESPONSE|>",
    "Here is my thought process:\n{thinking}\nHere is my response:\n{answer}",
    "<think>{thinking}</think>\n<answer>\n{answer}\n</answer>",
    "<mm:think>{thinking}</mm:think>{answer}",
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["output"][:40])
def test_an_answer_is_what_follows_the_thinking(row: dict[str, str]) -> None:
    assert answer_of(row["output"]) == row["answer"]
    assert answer_of(row["answer"]) == row["answer"]


@pytest.mark.parametrize("one", [*TABLE, *CHANNELS], ids=lambda one: one.models)
def test_every_row_has_an_output_that_needs_it(one: object) -> None:
    assert any(one.answer_in(row["output"]).strip() != row["output"].strip() for row in ROWS)  # type: ignore[attr-defined]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("thinking", "answer", "finish_reason", "outcome"),
    [
        ("It could be 7654321, but no.", "It is 1234567.", "stop", "correct"),
        ("Number only.", "1234567", "stop", "correct"),
        ("It is 1234567.", "It is 7654321.", "stop", "wrong"),
        ("It is 1234567.", "", "stop", "empty"),
        ("It is 1234567.", "", "length", "truncated"),
    ],
)
def test_only_the_answer_is_scored(form: str, thinking: str, answer: str, finish_reason: str, outcome: str) -> None:
    output = form.format(thinking=thinking, answer=answer)
    assert classify(output, finish_reason, values_named(DOC, [output]), DOC) == outcome


@pytest.mark.parametrize("form", FORMS)
def test_thinking_that_used_up_the_budget_has_an_outcome_of_its_own(form: str) -> None:
    output = form.partition("{thinking}")[0] + "It is 1234567."
    assert classify(output, "length", values_named(DOC, [output]), DOC) == "truncated_thinking"
    assert ends_thinking(output)
    assert not ends_thinking(form.format(thinking="It is 1234567.", answer=""))
    assert classify(output, "stop", values_named(DOC, [output]), DOC) == "empty"
    assert is_only_thinking(output)


def test_an_output_without_thinking_keeps_every_character() -> None:
    assert answer_in("    return 1 \n") == "    return 1 \n"
    assert answer_in("<think>so</think>\n\n    return 1") == "    return 1"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("begins", ["", "analysis", "Thinking...\n", "<|channel|>"])
@pytest.mark.parametrize(
    "piece", ["<think>", "<", "<a:", "assistant ", "analysis", "assistantfinal", "[THINK]", "<|open|> "]
)
def test_a_degenerate_output_is_read_in_little_time(begins: str, piece: str) -> None:
    assert isinstance(answer_of(begins + piece * 30_000), str)
