from __future__ import annotations

import random

import pytest
from support.families import build, names_of

from kveval.errors import ConfigError
from kveval.tasks.families.reasoning.arithmetic import Ledger

NAMES = names_of("reasoning")


@pytest.mark.parametrize("name", NAMES)
def test_a_scripted_model_that_errs_from_a_step_on_is_right_up_to_there(tasks, name):
    for sample in build(tasks[name], 4096, samples=4, questions=2):
        answers = sample.doc["answers"]
        steps = tasks[name].metadata["steps"]
        assert len(answers) == steps
        half = steps // 2
        text = "\n".join([*answers[:half], *(f"Step {k}: nothing" for k in range(half + 1, steps + 1))])
        metrics = tasks[name].score(sample.doc, text)
        assert metrics["score"] == half / steps
        assert [metrics[f"score_q{k}"] for k in range(1, 5)] == [1, 1, 0, 0]
        assert metrics["answer"] == 0


def test_every_question_has_its_own_facts_in_their_own_order() -> None:
    haystack = Ledger(steps=3).haystack(range(4), 0.5, random.Random(1))
    assert sorted(k for question in haystack.questions for k in question.needles) == list(range(12))
    for question in haystack.questions:
        texts = [haystack.needles[k].text for k in question.needles]
        assert [text.split(" ")[1] for text in texts] == ["1", "2", "3"]
        assert len({text.split(" ")[4] for text in texts}) == 1


def test_parameters_out_of_range_are_named():
    with pytest.raises(ConfigError, match="steps=2001; use a whole number from 1 to 2000"):
        Ledger(steps=2001)
