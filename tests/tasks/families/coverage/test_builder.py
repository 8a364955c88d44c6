from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from support.families import build, names_of, text_of

from kveval.errors import ConfigError
from kveval.tasks.families.coverage.builder import CouncilDecisions
from kveval.tasks.outcome import classify

NAMES = names_of("coverage")
LENGTHS = [2048, 8192]


@pytest.fixture(scope="module")
def built(tasks):
    return {(name, length): build(tasks[name], length, style="essays") for name in NAMES for length in LENGTHS}


def told(decisions):
    return "\n".join(f"- {decision['name']}: {decision['amount']} euros" for decision in decisions)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_whoever_knows_the_decisions_scores_one(tasks, built, name, length):
    for sample in built[name, length]:
        for text in (
            told(reversed(sample.doc["decisions"])),
            "We approved " + ", ".join(f"{d['amount']} for {d['name']}" for d in sample.doc["decisions"]) + ".",
        ):
            metrics = tasks[name].score(sample.doc, text)
            assert metrics == {"score": 1.0, "recall": 1.0, "precision": 1.0}
            assert classify(text, "stop", metrics, sample.doc) == "correct"


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_quoting_the_sentences_scores_one(tasks, built, name, length):
    for sample in built[name, length]:
        text = text_of(sample)
        sentences = [
            s for s in text.replace("\n", ". ").split(". ") if any(d["name"] in s for d in sample.doc["decisions"])
        ]
        assert tasks[name].score(sample.doc, ". ".join(sentences))["score"] == 1.0


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_an_answer_to_another_question_scores_next_to_nothing(tasks, built, name, length):
    samples = built[name, length]
    scores = []
    for sample, other in pairwise([*samples, samples[0]]):
        metrics = tasks[name].score(sample.doc, told(other.doc["decisions"]))
        shared = sum(decision in sample.doc["decisions"] for decision in other.doc["decisions"])
        assert metrics["recall"] == shared / len(sample.doc["decisions"])
        assert metrics["score"] < 1
        scores.append(metrics["score"] if name == "coverage_list" or not shared else 0.0)
    assert np.mean(scores) < 0.1
    first, last = samples[0], samples[-1]
    assert first.haystack_id != last.haystack_id
    assert tasks[name].score(first.doc, told(last.doc["decisions"]))["score"] == 0


@pytest.mark.parametrize(("name", "at_most"), [("coverage_list", 0.25), ("coverage_summary", 0.45)])
def test_telling_everything_is_no_summary(tasks, built, name, at_most):
    for sample in built[name, 2048]:
        metrics = tasks[name].score(sample.doc, told([*sample.doc["decisions"], *sample.doc["other_decisions"]]))
        assert metrics["recall"] == 1
        assert metrics["score"] == metrics["precision"] <= at_most


@pytest.mark.parametrize("name", NAMES)
def test_guessing_and_abstaining_score_nothing(tasks, built, name):
    for sample in built[name, 2048]:
        for text in ("not stated", sample.doc["question"], "Amber Falcon: 50,000 euros", "10,000 20,000 30,000"):
            assert tasks[name].score(sample.doc, text)["score"] == 0
        assert classify("not stated", "stop", {"score": 0.0}, sample.doc) == "abstained"


def test_part_of_the_decisions_is_wrong_and_scores_its_share(tasks, built):
    sample = built["coverage_list", 2048][0]
    text = told(sample.doc["decisions"][1:])
    metrics = tasks["coverage_list"].score(sample.doc, text)
    assert metrics["score"] == pytest.approx(1 - 1 / len(sample.doc["decisions"]))
    assert classify(text, "stop", metrics, sample.doc) == "wrong"


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_every_decision_stands_once_in_the_context(built, name, length):
    for sample in built[name, length][::10]:
        text = text_of(sample)
        for decision in (*sample.doc["decisions"], *sample.doc["other_decisions"]):
            assert text.count(decision["name"]) == text.count(decision["amount"]) == 1


@pytest.mark.parametrize("name", NAMES)
def test_depths_are_uniform(tasks, name):
    samples = build(tasks[name], 8192, 60, style="essays")
    depths = {(s.haystack_id, depth) for s in samples for depth in s.doc["depths_percent"]}
    counts = np.histogram([depth for _, depth in depths], bins=10, range=(0, 100))[0]
    assert chisquare(counts).pvalue > 0.5


@pytest.mark.parametrize("form", ["list", "summary"])
@given(seed=st.integers(0, 10**9), decisions=st.sampled_from([12, 24, 48]))
def test_questions_ask_for_some_decisions_and_for_the_right_ones(form, seed, decisions):
    rng = random.Random(seed)
    plan = CouncilDecisions(decisions, form).haystack(range(3 if decisions == 12 else 10), 0.5, rng)
    for question in plan.questions:
        assert (3 if form == "list" else 6) <= len(question.needles) <= (5 if form == "list" else 10)
        text = question.fields["question"]
        for k, needle in enumerate(plan.needles):
            amount = next(
                decision["amount"]
                for decision in (*question.fields["decisions"], *question.fields["other_decisions"])
                if decision["name"] in needle.text
            )
            assert amount in needle.text
            assert (k in question.needles) == asked_for(text, needle.text, int(amount.replace(",", "")))


def asked_for(question, sentence, amount):
    if "Summarize" in question:
        return f"for the {sentence.split(' department')[0].split()[-1]} " in question
    subject = question.removeprefix("List every decision ").split(" with its project")[0]
    kind, _, value = subject.rpartition(" than ")
    if kind.endswith("less"):
        return amount < int(value.split()[0].replace(",", ""))
    if kind.endswith("more"):
        return amount > int(value.split()[0].replace(",", ""))
    key = subject.removeprefix("of the ").removeprefix("led by ").removeprefix("for ")
    return key in sentence


@pytest.mark.parametrize(
    "metadata", [{"decisions": 10}, {"decisions": 4}, {"decisions": 52}, {"decisions": True}, {"form": "poem"}], ids=str
)
def test_parameters_out_of_range_are_refused(metadata):
    with pytest.raises(ConfigError, match="; use "):
        CouncilDecisions.from_metadata(metadata)


def test_more_questions_than_there_are_is_refused():
    with pytest.raises(ConfigError, match="questions_per_haystack=50; use at most 24 with decisions=24"):
        CouncilDecisions().haystack(range(50), 0.5, random.Random(0))
