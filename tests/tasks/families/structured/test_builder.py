from __future__ import annotations

import json
import random
from collections import Counter

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from scipy.stats import chisquare
from support.families import build, text_of

from kveval.errors import ConfigError
from kveval.tasks.families.structured.builder import InProse, InRegister

NAMES = ["extract_record", "extract_many"]
RIGHT = {"score": 1.0, "field_accuracy": 1.0, "valid": 1.0}


def as_written(value):
    return f"{value:.2f}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("context_length", [2048, 4096])
@pytest.mark.parametrize("name", NAMES)
def test_whoever_knows_the_records_scores_one(tasks, name, context_length):
    for sample in build(tasks[name], context_length):
        answer = json.loads(sample.doc["answers"][0])
        Draft202012Validator(json.loads(sample.doc["schema"])).validate(answer)
        shuffled = list(reversed(answer)) if isinstance(answer, list) else dict(reversed(answer.items()))
        for text in (json.dumps(answer), f"```json\n{json.dumps(shuffled, indent=2)}\n```"):
            assert tasks[name].score(sample.doc, text) == RIGHT


@pytest.mark.parametrize("name", NAMES)
def test_everything_asked_for_stands_in_the_text(tasks, name):
    for sample in build(tasks[name], 4096):
        text = text_of(sample)
        answer = json.loads(sample.doc["answers"][0])
        for record in answer if isinstance(answer, list) else [answer]:
            key = record[sample.doc["key"]]
            told = " ".join(line for line in text.replace(". ", ".\n").split("\n") if key in line)
            for value in record.values():
                assert isinstance(value, bool) or as_written(value) in told


def test_a_register_has_no_other_record_of_an_asked_group(tasks):
    for sample in build(tasks["extract_many"], 8192):
        text = text_of(sample)
        answer = json.loads(sample.doc["answers"][0])
        group = sample.doc["question"].split(" is ")[1].removesuffix(" as one JSON array.")
        asked = 1
        assert text.count(group) == len(answer) + asked
        assert len(answer) == len(sample.doc["depths_percent"])


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_to_another_question_scores_nothing(tasks, name):
    samples = build(tasks[name], 4096)
    for sample, other in zip(samples, samples[1:10] + samples[:1] + samples[11:] + samples[10:11], strict=True):
        assert tasks[name].score(sample.doc, other.doc["answers"][0]) == {"score": 0, "field_accuracy": 0, "valid": 1}


def test_sentences_cover_the_context_evenly_and_apart(tasks):
    samples = build(tasks["extract_record"], 4096, 200)
    depths = [depth for sample in samples for depth in sample.doc["depths_percent"]]
    counts, _ = np.histogram(depths, bins=10, range=(0, 100))
    assert chisquare(counts).pvalue > 0.05
    gaps = [abs(a - b) for a, b in (sample.doc["depths_percent"] for sample in samples)]
    assert np.mean(gaps) > 25


def test_register_lines_cover_the_context_evenly(tasks):
    samples = build(tasks["extract_many"], 4096, 200)
    counts, _ = np.histogram([depth for s in samples for depth in s.doc["depths_percent"]], bins=10, range=(0, 100))
    assert chisquare(counts).pvalue > 0.05
    sizes = Counter(len(json.loads(sample.doc["answers"][0])) for sample in samples)
    assert set(sizes) == {1, 2, 3}
    assert min(sizes.values()) > 50


@pytest.mark.parametrize("builder", [InProse(), InRegister()], ids=lambda builder: type(builder).__name__)
def test_keys_are_unique_and_kept_out_of_the_filler(builder):
    for seed in range(30):
        haystack = builder.haystack(range(10), 0.5, random.Random(seed))
        key = haystack.questions[0].fields["key"]
        answers = [json.loads(question.answers[0]) for question in haystack.questions]
        keys = [record[key] for answer in answers for record in (answer if isinstance(answer, list) else [answer])]
        assert len(set(keys)) == len(keys)
        assert set(keys) <= haystack.forbidden


@pytest.mark.parametrize("records", [0, True, 1.5, "many"])
def test_parameters_out_of_range_are_refused(records):
    with pytest.raises(ConfigError, match=f"records={records!r}; use a whole number from 1"):
        InProse.from_metadata({"records": records})
