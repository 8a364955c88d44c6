from __future__ import annotations

import json
import random

import numpy as np
import pytest
from scipy.stats import chisquare
from support.families import build, context_of

from kveval.tasks.families.needle.pairs import Lookup


@pytest.fixture
def task(tasks):
    return tasks["kv_lookup"]


def test_the_context_is_a_json_object_that_holds_the_answers(task):
    for sample in build(task, 4096):
        context = context_of(task, sample)
        whole = context[: context.rindex(",\n")]
        data = json.loads("{" + whole + "}")
        key = sample.doc["question"].split('"')[1]
        assert data[key] == sample.doc["answers"][0]
        assert len(data) == whole.count("\n") + 1
        assert set(sample.doc["distractors"]) <= set(data.values())


def test_depths_cover_the_context_evenly(task):
    samples = build(task, 8192, 200)
    counts, _ = np.histogram([sample.depth_percent for sample in samples], bins=10, range=(0, 100))
    assert chisquare(counts).pvalue > 0.05


def test_guessing_a_planted_value_stays_below_the_stated_chance(task):
    samples = build(task, 4096, 10)
    for sample in samples:
        values = [*sample.doc["answers"], *sample.doc["distractors"]]
        assert sum(task.score(sample.doc, value)["score"] for value in values) / len(values) <= 0.07


def test_pairs_are_uuids_and_none_is_twice():
    source = Lookup().haystack(range(1), 0.5, random.Random(0)).source
    order = source.order(random.Random(0))
    lines = [source.text(next(order)) for _ in range(5000)]
    assert len(set(lines)) == 5000
    assert all(len(line) == len('\n"": "",') + 2 * 36 for line in lines)


def test_as_many_keys_as_questions():
    assert len(Lookup(keys=4).haystack(range(10), 0.0, random.Random(0)).needles) == 10
