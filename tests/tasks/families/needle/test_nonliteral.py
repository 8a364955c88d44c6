from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.stem import SnowballStemmer
from scipy.stats import chisquare
from support.families import build, context_of

from kveval.errors import ConfigError
from kveval.tasks.corpora.words import GIVEN_NAMES
from kveval.tasks.families.needle.nonliteral import FACTS, LANDMARKS, QUESTIONS, Residents

STEM = SnowballStemmer("english").stem
FUNCTION_WORDS = {"a", "already", "and", "been", "from", "has", "in", "is", "of", "on", "only", "out", "that", "the"}
FUNCTION_WORDS |= {"to", "where", "which", "who"}


def content(text):
    """Stems of the words of a text that mean something by themselves."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return {STEM(word) for word in re.findall(r"[^\W\d_]+", plain) if word not in FUNCTION_WORDS}


def all_questions(landmark):
    for place in (landmark.city, landmark.country):
        for question in QUESTIONS:
            yield question.format(place=place)
        yield f"The one who has been to {place} is"


def test_no_question_shares_a_content_word_with_any_needle():
    planted = set()
    for landmark in LANDMARKS:
        for fact in FACTS:
            planted |= content(fact.format(name="", landmark=landmark.name, Landmark=landmark.name))
    planted |= set().union(*(content(name) for name in GIVEN_NAMES))
    for landmark in LANDMARKS:
        for question in all_questions(landmark):
            assert content(question).isdisjoint(planted), question


def test_no_name_of_a_place_begins_like_a_word_of_a_needle():
    planted = " ".join((*(landmark.name for landmark in LANDMARKS), *GIVEN_NAMES, *FACTS)).lower()
    for landmark in LANDMARKS:
        for word in re.findall(r"\w{5,}", f"{landmark.city} {landmark.country}".lower()):
            assert not re.search(rf"\b{word[:5]}", planted), word


def test_links_are_many_and_tell_their_place_apart():
    assert len(LANDMARKS) >= 40
    for column in zip(*LANDMARKS, strict=True):
        assert len(set(column)) == len(LANDMARKS)
    assert len(set(GIVEN_NAMES)) == len(GIVEN_NAMES)


@given(
    count=st.integers(1, 40),
    hops=st.integers(1, 2),
    seed=st.integers(0, 10**6),
    depth_shift=st.floats(0, 1, exclude_max=True),
)
def test_whoever_knows_the_world_finds_the_answer(count, hops, seed, depth_shift):
    haystack = Residents(keys=16, hops=hops).haystack(range(count), depth_shift, random.Random(seed))
    for question in haystack.questions:
        place = question.fields["answer_lead"].removeprefix("The one who has been to ").removesuffix(" is")
        sights = [landmark.name.lower() for landmark in LANDMARKS if place in (landmark.city, landmark.country)]
        told = [needle.text for needle in haystack.needles if any(name in needle.text.lower() for name in sights)]
        assert len(told) == 1
        assert question.answers[0] in told[0]
        assert haystack.needles[question.needles[0]].text == told[0]
        assert len(question.distractors) == max(16, count) - 1


def test_the_context_names_no_place_that_is_asked_for_and_nobody_twice(tasks):
    task = tasks["niah_nonliteral"]
    for sample in build(task, 4096):
        context = context_of(task, sample)
        place = sample.doc["answer_lead"].removeprefix("The one who has been to ").removesuffix(" is")
        assert place.lower() not in context.lower()
        assert context.count(sample.doc["answers"][0]) == 1


def test_facts_are_told_and_asked_in_several_ways_at_all_depths(tasks):
    task = tasks["niah_nonliteral"]
    samples = build(task, 2048, 200)
    counts, _ = np.histogram([sample.depth_percent for sample in samples], bins=10, range=(0, 100))
    assert chisquare(counts).pvalue > 0.05
    assert len({sample.doc["question"][:10] for sample in samples}) == len(QUESTIONS)
    answers = Counter(sample.doc["answers"][0] for sample in samples)
    assert max(answers.values()) < 200 * 0.06


def test_guessing_somebody_named_stays_below_the_stated_chance(tasks):
    task = tasks["niah_nonliteral"]
    for sample in build(task, 2048, 10):
        people = [*sample.doc["answers"], *sample.doc["distractors"]]
        assert sum(task.score(sample.doc, person)["score"] for person in people) / len(people) <= 0.07


def test_more_people_than_names_are_refused():
    with pytest.raises(ConfigError, match="61 people in one haystack; use at most 60"):
        Residents(keys=61).haystack(range(1), 0.0, random.Random(0))


def test_more_than_two_hops_are_refused():
    with pytest.raises(ConfigError, match="hops=3; use 1 or 2"):
        Residents(hops=3)
