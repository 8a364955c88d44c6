from __future__ import annotations

import pytest

from kveval.tasks.scoring.echo import question_in, without_echo
from kveval.tasks.scoring.text import PROSE

TICKET = "Ticket 3: customer 23757 asks for a refund. Is it allowed, yes or no? Answer yes or no."
TOWER = "Which is right: the tower is in Paris, or the tower is in London?"
KEY = "The key is 48213. Keep it safe. What is the key?"
LEVELS = "Reply with one of: low, medium, high."
LINES = "Pick.\nA) Paris\nB) London\nAnswer:"


@pytest.mark.parametrize(
    ("prompt", "reference", "echo"),
    [
        *((TICKET, "no", echo) for echo in (TICKET, TICKET[-40:], TICKET[-10:], TICKET.upper(), f"You said: {TICKET}")),
        *((TICKET, "yes", echo) for echo in (TICKET, TICKET[-40:], f"{TICKET}\n{TICKET}", "Yes or no")),
        (TOWER, "Paris", TOWER),
        (KEY, "48213", KEY),
        (LEVELS, "high", LEVELS),
        (LEVELS, "high", "low, medium, high"),
        (LINES, "London", LINES),
        ("Say yes/no.", "yes", "yes/no"),
        ("The word is blue. Is blue a colour?", "blue", "Is blue a colour?"),
        ("…and so the key is 7. Is it 7 or 8?", "31", "It was 31 and so the key is 7. Is it 7 or 8?"),
    ],
)  # fmt: skip
def test_a_repetition_of_the_question_names_nothing(prompt: str, reference: str, echo: str) -> None:
    assert not PROSE.names(without_echo(echo, prompt, [reference]), reference)


@pytest.mark.parametrize(
    ("prompt", "reference", "answer"),
    [
        (TICKET, "no", "No."),
        (TICKET, "no", "No, customer 23757 asks for a refund too late."),
        (TICKET, "no", "Is it allowed, yes or no? No."),
        (TICKET, "yes", "Answer: yes"),
        (TICKET, "yes", "Yes or no: yes"),
        (TICKET, "yes or no", "yes or no"),
        (TOWER, "Paris", "The tower is in Paris."),
        (TOWER, "London", "The tower is in London."),
        (KEY, "48213", "The key is 48213."),
        (KEY, "48213", "The key is 48213. Keep it safe."),
        (KEY, "48213", f"{KEY} 48213"),
        (LEVELS, "high", "high"),
        (LINES, "London", "B) London"),
        ("Who wrote it, Ann or Bob, in 1990?", "Bob", "Bob, in 1990."),
        ("", "Paris", "Paris or London"),
    ],
)
def test_an_answer_in_the_words_of_the_question_stays(prompt: str, reference: str, answer: str) -> None:
    assert PROSE.names(without_echo(answer, prompt, [reference]), reference)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        (TICKET, "Is it allowed, yes or no? Answer yes or no."),
        (KEY, "What is the key?"),
        ("Q: What is the key?\nA:", "Q: What is the key?\nA:"),
        ("What is it? " + "A long text. " * 40 + "The end.", "The end."),
        ("Tell me", "Tell me"),
        ("", ""),
    ],
)
def test_the_question_is_the_end_of_a_prompt(text: str, question: str) -> None:
    assert question_in(text) == question


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["yes or no ", "a ", "a", "?"])
def test_a_degenerate_output_is_read_in_little_time(piece: str) -> None:
    assert isinstance(without_echo(piece * 20_000, "…is it, yes or no? " + "a " * 140 + "yes or no.", ["yes"]), str)
