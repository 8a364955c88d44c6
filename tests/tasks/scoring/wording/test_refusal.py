from __future__ import annotations

import pytest

from kveval.tasks.scoring.abstention import abstains
from kveval.tasks.scoring.wording.refusal import refuses


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but I can't assist with that request.", "I’m sorry, I cannot help with that.", "I cannot comply.",
        "Sorry, I can't help you with that.", "I am unable to help.", "I must decline.", "I won't do that.",
        "I'm not able to assist with this.", "As an AI language model, I cannot do that.",
        "That goes against my guidelines.", "We are sorry, but we are unable to process that.",
    ],
)  # fmt: skip
def test_refusals(answer: str) -> None:
    assert refuses(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "not stated", "I'm sorry, I can't find it in the text.", "I cannot answer this question based on the text.",
        "I'm sorry, but the passage does not contain that information.", "I can't provide that information.", "1234567",
        "He declined to help.", "The law is against the rules.", "I cannot determine the number.", "",
    ],
)  # fmt: skip
def test_an_answer_that_the_text_does_not_say_is_no_refusal(answer: str) -> None:
    assert not refuses(answer)


def test_a_refusal_is_no_abstention() -> None:
    assert not abstains("I'm sorry, but I can't assist with that request.")
