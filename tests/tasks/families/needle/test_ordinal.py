from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from support.families import build, text_of

from kveval.errors import ConfigError
from kveval.tasks.families.needle.ordinal import ORDINALS, Readings


@given(count=st.integers(1, 40), keys=st.integers(1, 6), values=st.integers(1, 16), seed=st.integers(0, 10**6))
def test_a_reader_who_counts_finds_the_answer(count, keys, values, seed):
    haystack = Readings(keys, values).haystack(range(count), 0.5, random.Random(seed))
    text = " ".join(needle.text for needle in haystack.needles)
    for question in haystack.questions:
        key, ordinal = re.search(r"the (\S+) counter .* the (\w+) time\?", question.fields["question"]).groups()
        readings = re.findall(rf"The {key} counter now shows (\d{{7}})\.", text)
        assert len(readings) == values
        assert readings[ORDINALS.index(ordinal)] == question.answers[0]
        assert haystack.needles[question.needles[0]].text.endswith(f"{question.answers[0]}.")


def test_every_ordinal_is_asked_and_depths_cover_the_context_evenly(tasks):
    task = tasks["niah_ordinal"]
    samples = build(task, 2048, 240)
    counts, _ = np.histogram([sample.depth_percent for sample in samples], bins=10, range=(0, 100))
    assert chisquare(counts).pvalue > 0.05
    ordinals = Counter(re.search(r"the (\w+) time\?", sample.doc["question"])[1] for sample in samples)
    assert set(ordinals) == set(ORDINALS[:8])
    assert chisquare(list(ordinals.values())).pvalue > 0.05


def test_guessing_a_reading_of_the_right_counter_stays_below_the_stated_chance(tasks):
    task = tasks["niah_ordinal"]
    for sample in build(task, 2048, 10):
        key = re.search(r"the (\S+) counter", sample.doc["question"])[1]
        text = text_of(sample)
        readings = re.findall(rf"The {key} counter now shows (\d{{7}})\.", text)
        assert sum(task.score(sample.doc, reading)["score"] for reading in readings) / len(readings) <= 0.13


def test_more_readings_than_ordinals_are_refused():
    with pytest.raises(ConfigError, match="values=17; use at most 16"):
        Readings(values=17)
