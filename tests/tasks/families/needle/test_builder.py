from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.families import build, names_of, text_of

from kveval.errors import ConfigError
from kveval.tasks.families.needle.builder import (
    KINDS,
    Absent,
    ManySubjects,
    ManyValues,
    OfManyKinds,
    OfOneKind,
)
from kveval.tasks.outcome import classify

NAMES = names_of("needle")
BUILDERS = [
    OfManyKinds(),
    OfOneKind(keys=16),
    Absent(keys=16, absent_share=0.5),
    ManyValues(values=4),
    ManySubjects(keys=16, subjects=4),
]


@pytest.mark.parametrize("context_length", [2048, 4096])
@pytest.mark.parametrize("name", NAMES)
def test_whoever_knows_the_answers_scores_one(tasks, name, context_length):
    task = tasks[name]
    for sample in build(task, context_length):
        text = "It is " + ", ".join(reversed(sample.doc["answers"])) + "."
        metrics = task.score(sample.doc, text)
        assert metrics == {"score": 1.0, "ruler": 1.0}
        assert classify(text, "stop", metrics, sample.doc) == "correct"


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_to_another_question_scores_nothing(tasks, name):
    task = tasks[name]
    samples = [s for s in build(task, 2048, 40) if not s.doc["absent"]]
    scores = [
        task.score(sample.doc, ", ".join(other.doc["answers"]))["score"]
        for sample, other in zip(samples, samples[1:] + samples[:1], strict=True)
        if set(sample.doc["answers"]).isdisjoint(other.doc["answers"])
    ]
    assert scores
    assert sum(scores) == 0


@pytest.mark.parametrize("name", NAMES)
def test_naming_every_planted_number_scores_nothing(tasks, name):
    task = tasks[name]
    for sample in build(task, 2048):
        assert task.score(sample.doc, ", ".join([*sample.doc["answers"], *sample.doc["distractors"]]))["score"] == 0


@pytest.mark.parametrize("samples", [7, 20, 33])
@pytest.mark.parametrize("name", NAMES)
def test_an_abstainer_scores_the_absent_share(tasks, name, samples):
    task = tasks[name]
    built = build(task, 2048, samples)
    absent = sum(sample.doc["absent"] for sample in built)
    assert absent == int(samples * task.metadata.get("absent_share", 0))
    assert sum(task.score(sample.doc, "not stated")["score"] for sample in built) == absent


def test_absent_prompts_look_like_any_other(tasks):
    samples = build(tasks["niah_absent"], 2048)
    shapes = {text_of(s).split("number for ")[-1].split(" ", 1)[1] for s in samples}
    assert len(shapes) == 1
    for sample in samples:
        text = text_of(sample)
        key = sample.doc["question"].split("number for ")[1].split(" ")[0]
        asked, lead = 1, 1
        assert text.count(key) == asked + lead + (not sample.doc["absent"])
        assert (sample.depth_percent is None) == sample.doc["absent"]
        assert (sample.doc["excerpts"] == []) == sample.doc["absent"]


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda builder: type(builder).__name__)
@given(count=st.integers(1, 40), seed=st.integers(0, 10**9), depth_shift=st.floats(0, 1, exclude_max=True))
def test_keys_and_values_are_unique_in_a_haystack(builder, count, seed, depth_shift):
    haystack = builder.haystack(range(count), depth_shift, random.Random(seed))
    assert len(haystack.questions) == count
    values = [needle.text.rstrip(".").rsplit(" ", 1)[1] for needle in haystack.needles]
    assert len(set(values)) == len(values)
    assert all(len(value) == 7 and value.isdigit() for value in values)
    assert set(values) <= haystack.forbidden
    for question in haystack.questions:
        assert tuple(values[i] for i in question.needles) == (() if question.absent else question.answers)
        assert set(question.answers).isdisjoint(question.distractors)
        assert set(question.answers) | set(question.distractors) >= set(values)


def test_questions_of_a_haystack_differ(tasks):
    for name in NAMES:
        samples = build(tasks[name], 4096, 10)
        assert len({sample.doc["question"] for sample in samples}) == 10


def test_single_is_rulers_single_needle_when_one_question_is_asked():
    haystack = OfManyKinds().haystack(range(1), 0.5, random.Random(0))
    assert len(haystack.needles) == 1
    assert haystack.questions[0].distractors == ()


def test_kinds_repeat_only_when_all_are_used():
    haystack = OfManyKinds().haystack(range(len(KINDS)), 0.5, random.Random(0))
    stems = Counter(needle.text.split(" of the ")[0].split(" of ")[0] for needle in haystack.needles)
    assert max(stems.values()) <= 2


def test_multiquery_asks_for_every_key_about_equally_often():
    haystack = ManySubjects(keys=16, subjects=4).haystack(range(40), 0.0, random.Random(3))
    asked = Counter(i for question in haystack.questions for i in question.needles)
    assert set(asked.values()) == {10}
    assert all(len(set(question.needles)) == 4 for question in haystack.questions)


def test_multivalue_spreads_the_values_of_a_key():
    haystack = ManyValues(values=4).haystack(range(10), 0.5, random.Random(3))
    for question in haystack.questions:
        depths = sorted(haystack.needles[i].depth_percent for i in question.needles)
        assert all(20 < later - earlier < 30 for earlier, later in pairwise(depths))


@pytest.mark.parametrize(
    ("builder", "metadata"),
    [
        (OfOneKind, {"keys": 0}),
        (ManyValues, {"values": 1.5}),
        (ManySubjects, {"subjects": True}),
        (Absent, {"absent_share": 1.5}),
        (Absent, {"absent_share": "half"}),
    ],
)
def test_parameters_out_of_range_are_refused(builder, metadata):
    [(name, value)] = metadata.items()
    with pytest.raises(ConfigError, match=f"{name}={value!r}; use a"):
        builder.from_metadata(metadata)


def test_more_keys_than_words_are_refused():
    with pytest.raises(ConfigError, match="500 keys in one haystack; use at most"):
        OfOneKind(keys=500).haystack(range(1), 0.0, random.Random(0))
