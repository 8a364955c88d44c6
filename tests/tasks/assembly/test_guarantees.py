"""What holds for every task of these families, whatever it asks."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.families import STAND_IN, build, names_of

from kveval.tasks.assembly.placement import SLACK_TOKENS
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.outcome import classify

NAMES = [*names_of("needle"), *names_of("long_decode"), *names_of("structured")]
MORE_NAMES = [*NAMES, *names_of("coverage"), *names_of("multidoc_qa")]
LENGTHS = [3600, 8192]


@pytest.mark.parametrize("context_length", LENGTHS)
@pytest.mark.parametrize("name", MORE_NAMES)
def test_prompts_are_exact_shared_and_reproducible(tasks, name, context_length):
    samples = build(tasks[name], context_length)
    assert len({sample.sample_id for sample in samples}) == 20
    for sample in samples:
        assert context_length - SLACK_TOKENS <= len(sample.prompt) <= context_length
        json.dumps(dict(sample.doc), allow_nan=False)
    haystack_ids = {sample.haystack_id for sample in samples}
    assert len(haystack_ids) >= 2
    for haystack_id in haystack_ids:
        own = [sample for sample in samples if sample.haystack_id == haystack_id]
        assert len({id(sample.prompt.shared) for sample in own}) == 1
        assert len({sample.doc["question"] for sample in own}) == len(own) >= 6
    rebuilt = build(tasks[name], context_length, prompt_format=PromptFormat.stand_in())
    for sample, again in zip(samples, rebuilt, strict=True):
        assert sample.sample_id == again.sample_id
        assert sample.doc == again.doc
        assert np.array_equal(sample.prompt.token_ids(), again.prompt.token_ids())
    others = {sample.sample_id for sample in build(tasks[name], context_length, seed=2)}
    assert others.isdisjoint(sample.sample_id for sample in samples)


@pytest.mark.parametrize("name", MORE_NAMES)
def test_every_question_is_one_prefill_away(tasks, name):
    for sample in build(tasks[name], 8192):
        assert len(sample.prompt.tail) < 130, len(sample.prompt.tail)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_fits_the_output_budget_and_is_correct(tasks, name):
    for sample in build(tasks[name], 3600):
        text = "\n".join(sample.doc["answers"])
        assert len(STAND_IN.encode(text)) <= 0.75 * sample.max_output_tokens
        assert classify(text, "stop", tasks[name].score(sample.doc, text), sample.doc) == "correct"


@pytest.mark.parametrize("name", NAMES)
def test_another_haystacks_answers_score_nothing(tasks, name):
    samples = build(tasks[name], 3600)
    scores = [
        tasks[name].score(sample.doc, "\n".join(other.doc["answers"]))["score"]
        for sample, other in zip(samples, samples[10:] + samples[:10], strict=True)
        if not sample.doc["absent"] and sample.doc["answers"] != other.doc["answers"]
    ]
    assert scores
    assert sum(scores) <= 0.01 * len(scores)


@pytest.mark.parametrize("name", NAMES)
def test_abstaining_is_right_where_the_answer_is_absent_and_nowhere_else(tasks, name):
    samples = build(tasks[name], 3600)
    right = sum(tasks[name].score(sample.doc, "not stated")["score"] for sample in samples)
    assert right == sum(sample.doc["absent"] for sample in samples)
    assert right == int(20 * tasks[name].metadata.get("absent_share", 0))
