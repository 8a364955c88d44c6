"""What the fields of a record are, and how it reads."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from kveval.tasks.families.structured.record_kinds import RECORD_KINDS


def as_written(value):
    return f"{value:.2f}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("kind", RECORD_KINDS, ids=lambda kind: kind.noun)
def test_guessing_every_field_but_the_key_stays_below_the_stated_chance(tasks, kind):
    rng = random.Random(0)
    scores, accuracies = [], []
    for _ in range(400):
        record, guess = kind.record(rng), kind.record(rng)
        doc = {"answers": [json.dumps(record)], "schema": json.dumps(kind.schema()), "key": kind.key}
        metrics = tasks["extract_record"].score(doc, json.dumps(guess | {kind.key: record[kind.key]}))
        scores.append(metrics["score"])
        accuracies.append(metrics["field_accuracy"])
    assert sum(scores) == 0
    assert np.mean(accuracies) < 0.17


def test_the_two_sentences_of_a_record_hold_it_between_them():
    rng = random.Random(0)
    for kind in RECORD_KINDS:
        record = kind.record(rng)
        one, two = kind.sentences(record)
        assert record[kind.key] in one
        assert record[kind.key] in two
        for part in (one, two):
            assert not all(as_written(value) in part for value in record.values() if not isinstance(value, bool))
