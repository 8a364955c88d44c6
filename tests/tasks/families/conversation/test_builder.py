from __future__ import annotations

import random
import re

import pytest
from support.families import build, text_of

from kveval.errors import ConfigError
from kveval.tasks.families.conversation.builder import THINGS, UpdatedFacts
from kveval.tasks.outcome import classify


@pytest.fixture
def task(tasks):
    return tasks["fact_update"]


def test_the_fact_comes_before_its_update_and_another_persons_is_somewhere(task):
    for sample in build(task, 8192, 40):
        text = text_of(sample)
        thing = re.search(r"my (.*) now\?", sample.doc["question"])[1]
        own, others = (
            re.findall(rf"User: (?![^\n]*\?)[^\n]*{phrase}[^\n]*", text)
            for phrase in (rf"(?:[Mm]y|new) {thing}", rf"(?:'s {thing}|the {thing} of)")
        )
        assert len(others) == 1
        assert len(own) == (0 if sample.doc["absent"] else 2)
        if not sample.doc["absent"]:
            assert 0 < text.index(sample.doc["old_value"]) < text.index(sample.doc["answers"][0])
            assert text.count(sample.doc["answers"][0]) == 1
            assert sample.doc["old_value"] in sample.doc["distractors"]


def test_the_old_value_is_wrong_and_seen(task):
    for sample in build(task, 8192, 40):
        if sample.doc["absent"]:
            metrics = task.score(sample.doc, sample.doc["distractors"][0])
            assert metrics == {"score": 0.0, "ruler": 0.0, "stale": 0.0}
            continue
        metrics = task.score(sample.doc, f"It is {sample.doc['old_value']}.")
        assert metrics == {"score": 0.0, "ruler": 0.0, "stale": 1.0}
        assert classify("x " + sample.doc["old_value"], "stop", metrics, sample.doc) == "wrong"
        both = f"It was {sample.doc['old_value']}, now it is {sample.doc['answers'][0]}."
        assert task.score(sample.doc, both) == {"score": 0.0, "ruler": 1.0, "stale": 0.0}


def test_a_number_from_the_conversation_at_random_is_right_rarely(task):
    rng = random.Random(3)
    samples = [sample for sample in build(task, 8192, 200) if not sample.doc["absent"]]
    guesses = [rng.choice([*sample.doc["distractors"], *sample.doc["answers"]]) for sample in samples]
    right = [task.score(sample.doc, guess)["score"] for sample, guess in zip(samples, guesses, strict=True)]
    assert sum(right) / len(right) < 0.08


def test_more_questions_than_facts_are_refused():
    with pytest.raises(ConfigError, match=f"use at most {len(THINGS)}"):
        UpdatedFacts().haystack(range(40), 0.0, random.Random(0))
    assert UpdatedFacts().most_questions(1_000_000) == len(THINGS)
    with pytest.raises(ConfigError, match="absent_share='x'"):
        UpdatedFacts.from_metadata({"absent_share": "x"})
