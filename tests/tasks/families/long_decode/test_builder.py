from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from support.families import build, context_of, names_of

from kveval.errors import ConfigError, PlanError
from kveval.tasks.families.long_decode.builder import LEDGER, Recital, Transformation
from kveval.tasks.families.long_decode.scorers import entries_of

NAMES = names_of("long_decode")
FOUR = ["amber-fox: 4821", "bold-elm: 1275", "cold-owl: 9033", "dusty-pea: 6118"]
RIGHT = {"score": 1.0, "score_q1": 1.0, "score_q2": 1.0, "score_q3": 1.0, "score_q4": 1.0, "stopped": 1.0}


def slice_of(task, sample):
    """The asked slice as a reader finds it: from the first name to the last."""
    entries = entries_of(context_of(task, sample))
    first, last = sample.doc["question"].split(" from ")[1].split(",")[0].split(" to ")
    names = [name for name, _ in entries]
    assert names.count(first) == names.count(last) == 1
    return entries[names.index(first) : names.index(last) + 1]


@pytest.mark.parametrize("context_length", [3600, 8192])
@pytest.mark.parametrize("name", NAMES)
def test_a_reader_who_writes_what_is_asked_scores_one(tasks, name, context_length):
    for sample in build(tasks[name], context_length):
        found = slice_of(tasks[name], sample)
        assert len(found) == len(sample.doc["answers"]) == tasks[name].metadata["items"]
        question = sample.doc["question"]
        if "swapped" in question:
            found = [("-".join(reversed(entry.split("-"))), number) for entry, number in found]
        elif "reverse" in question:
            found = [(entry, number[::-1]) for entry, number in found]
        elif "increased" in question:
            found = [(entry, str(int(number) + 1)) for entry, number in found]
        text = "\n".join(f"{i}. **{entry}** = {number}" for i, (entry, number) in enumerate(found, 1))
        assert tasks[name].score(sample.doc, text) == RIGHT


@pytest.mark.parametrize("name", NAMES)
def test_another_slice_scores_nothing_even_where_it_overlaps(tasks, name):
    samples = build(tasks[name], 4096)
    for sample in samples[:10]:
        others = [other for other in samples[:10] if other is not sample]
        scores = [tasks[name].score(sample.doc, "\n".join(other.doc["answers"]))["score"] for other in others]
        assert sum(scores) == 0


def test_copying_is_not_transforming(tasks):
    for sample in build(tasks["transform_list"], 4096):
        found = slice_of(tasks["transform_list"], sample)
        assert tasks["transform_list"].score(sample.doc, "\n".join(": ".join(each) for each in found))["score"] < 0.1


def test_the_first_error_decides_and_quarters_show_where_it_was(tasks):
    sample = build(tasks["recite_pairs"], 4096, 1, 1)[0]
    lines = list(sample.doc["answers"])
    lines[25] = lines[25][:-1] + "0"
    metrics = tasks["recite_pairs"].score(sample.doc, "\n".join(lines))
    assert metrics == RIGHT | {"score": 25 / 40, "score_q3": 0.9}
    metrics = tasks["recite_pairs"].score(sample.doc, "\n".join(sample.doc["answers"][:30]))
    assert metrics == RIGHT | {"score": 0.75, "score_q4": 0.0}


@given(count=st.integers(1, 23), items=st.integers(16, 60), seed=st.integers(0, 10**6))
def test_slices_begin_at_entries_of_their_own_and_few_share_a_stretch(count, items, seed):
    haystack = Recital(items).haystack(range(count), 0.5, random.Random(seed))
    assert len(haystack.questions) == len(haystack.needles) == count
    assert len({question.answers[0] for question in haystack.questions}) == count
    depths = [needle.depth_percent for needle in haystack.needles]
    assert len(set(depths)) == -(-count // 5)
    assert all(a <= b for a, b in pairwise(depths))


def test_stretches_cover_the_context_evenly(tasks):
    samples = build(tasks["recite_pairs"], 6000, 250)
    depths = [sample.depth_percent for sample in samples]
    counts, _ = np.histogram(depths, bins=5, range=(0, 100))
    clusters = counts / 5  # the slices of a stretch stand together
    assert chisquare(clusters).pvalue > 0.05


def test_every_rule_is_asked_for():
    questions = Transformation().haystack(range(40), 0.0, random.Random(0)).questions
    assert {question.fields["question"].split("with ")[1].split(":")[0] for question in questions} == {
        "the two words of every name swapped",
        "the digits of every number in reverse",
        "every number increased by one",
    }


def test_a_ledger_has_every_name_once():
    source = LEDGER
    names = [source.text(index).split(":")[0] for index in source.order(random.Random(0))]
    assert len(set(names)) == len(names) > 20_000


def test_slices_that_do_not_fit_are_refused(tasks):
    with pytest.raises(PlanError, match="tokens or more"):
        build(tasks["recite_long"], 2048)
    with pytest.raises(ConfigError, match="items=15; use a whole number from 16"):
        Recital(15)
