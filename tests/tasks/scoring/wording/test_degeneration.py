from __future__ import annotations

import json
import random

import pytest

from kveval.tasks.scoring.wording.degeneration import degeneration

QUESTION = "What is the special magic number for quiet-lynx?"
FLUENT = (
    "It was a dark night and the men of the old town had gone to the sea with their boats in the hope that they would "
    "find some fish there, but the wind was against them."
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("the the the the the the", "loop"),
        ("1234567. 1234567. 1234567. 1234567. 1234567. 1234567.", "loop"),
        ("It is 1234567. " + "The number for quiet-lynx is not here. " * 4, "loop"),
        ("It is 1234567. " + "The number for quiet-lynx is not here. " * 4 + "The number for", "loop"),
        ("的" * 30, "loop"),
        ("0" * 40, "loop"),
        ("So " + "so on and " * 12, "loop"),
        ("{" * 400, "loop"),
        ("The number Москва is 東京の of Ελλάδα", "scripts"),
        ("It is \ufffd\ufffd\ufffd\ufffd.", "scripts"),
        (FLUENT, "unrelated"),
    ],
)
def test_outputs_that_are_no_answers_any_more(text: str, kind: str) -> None:
    assert degeneration(text, QUESTION) == kind


@pytest.mark.parametrize(
    "text",
    [
        "", "1234567", "1234567 1234567", "no, no, no", "not stated", "The number is 1234567.\n" + "-" * 60,
        "値は48213です", "Милан Панић (Milan Panić)", "α + β = γ is what the text says in Greek letters",
        "quiet-lynx: " + FLUENT, "1234567, 7654321, 5550123", "The number is 1234567\ufffd", "[" + "0, " * 4 + "0]",
        "| a | b |\n|---|---|\n| 1 | 2 |", "ha ha ha",
    ],
)  # fmt: skip
def test_other_outputs_have_not_degenerated(text: str) -> None:
    assert degeneration(text, QUESTION) is None


@pytest.mark.parametrize("form", ["{}-{}: {}", "- **{}-{}** {}", "{}-{}\n{}", '{{"name": "{}-{}", "number": {}}},'])
def test_a_right_long_list_has_not_degenerated(form: str) -> None:
    rng = random.Random(1)
    words = ["amber", "bold", "cold", "dusty", "eager", "falcon", "gull", "heron", "ibis", "jay"]
    lines = [form.format(rng.choice(words), rng.choice(words), rng.randrange(1000, 9999)) for _ in range(128)]
    assert degeneration("\n".join(lines), "Write the entries from amber-fox to dusty-pea.") is None
    records = [{"id": f"A-{i}", "open": True, "amount": 10, "city": rng.choice(words)} for i in range(40)]
    assert degeneration(json.dumps(records)) is None
    assert degeneration(json.dumps(records, indent=2)) is None


def test_fluent_text_is_unrelated_only_to_a_question_with_words() -> None:
    assert degeneration(FLUENT, "") is None
    assert degeneration(FLUENT, "What is it?") is None
    assert degeneration(FLUENT, "Where were the boats?") is None
