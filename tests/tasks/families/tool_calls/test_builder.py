from __future__ import annotations

import json
import random
import re
from collections import Counter

import pytest
from support.families import build, text_of

from kveval.errors import ConfigError
from kveval.tasks.corpora import bfcl
from kveval.tasks.families.tool_calls.builder import InCatalogue, InConversation

NAMES = ["tools_catalogue", "tools_conversation"]


def test_kinds_take_turns(tasks):
    for name in NAMES:
        kinds = Counter(sample.doc["kind"] for sample in build(tasks[name], 8192, 40))
        assert kinds["irrelevant"] == 8
        assert min(kinds["simple"], kinds["multiple"], kinds["parallel"]) >= 10


def test_the_catalogue_has_the_functions_of_every_answerable_request_and_none_for_the_others(tasks):
    for sample in build(tasks["tools_catalogue"], 8192, 40):
        text = text_of(sample)
        head, _, request = text.rpartition("Request: ")
        assert sample.doc["question"] in request
        names = re.findall(r'^\{"name": "([\w-]+)"', head, re.MULTILINE)
        assert len(set(names)) == len(names) > 20
        for call in json.loads(sample.doc["expected"]):
            assert call["name"] in names
        assert (sample.depth_percent is None) == sample.doc["absent"]
        if sample.doc["absent"]:
            own = next(r for r in bfcl.requests("simple") if r.text == sample.doc["question"])
            known = {function.name: function for function in bfcl.functions()}
            assert not any(own.may_be_served_by(known[name]) for name in names if name in known)


def test_the_arguments_stand_far_back_and_not_in_the_last_turn(tasks):
    requests = {r.text for kind in ("simple", "multiple", "parallel", "irrelevant") for r in bfcl.requests(kind)}
    for sample in build(tasks["tools_conversation"], 8192, 40):
        text = text_of(sample)
        label = re.search(r"task ([a-z]+-[a-z]+),", sample.doc["question"])[1]
        asked = re.search(rf"Task {label}, for later: (.*)\n", text)[1]
        assert asked in requests
        assert text.count(asked) == 1
        assert sample.depth_percent is not None
        offered = {json.loads(line)["name"] for line in sample.doc["catalogue"].splitlines()}
        assert {call["name"] for call in json.loads(sample.doc["expected"])} <= offered


@pytest.mark.parametrize("name", NAMES)
def test_whoever_sees_the_last_turn_only_scores_no_better_than_one_that_never_calls(tasks, name):
    """The guesser knows BFCL: it calls a random request's functions with their right arguments, or its own idea of a
    function with every number and quoted text of the question."""
    rng = random.Random(5)
    samples = build(tasks[name], 8192, 100)
    known = [request for kind in ("simple", "multiple", "parallel") for request in bfcl.requests(kind)]
    score = 0.0
    for sample in samples:
        words = re.findall(r"[a-z]+", sample.doc["question"].lower())
        numbers = {f"x{i}": float(n) for i, n in enumerate(re.findall(r"\d+", sample.doc["question"]))}
        for calls in (rng.choice(known).reference, [{"name": "_".join(words[:3]), "arguments": numbers}]):
            score += tasks[name].score(sample.doc, json.dumps(calls))["score"]
    assert score == 0
    assert sum(sample.doc["absent"] for sample in samples) == 20


@pytest.mark.parametrize("builder", [InCatalogue(0.2), InConversation(0.2)], ids=lambda builder: type(builder).__name__)
def test_no_function_in_a_haystack_may_serve_two_of_its_requests(builder):
    every = [request for kind in ("simple", "multiple", "parallel", "irrelevant") for request in bfcl.requests(kind)]
    by_line = {function.line: function for request in every for function in request.candidates}
    for seed in range(5):
        haystack = builder.haystack(range(10), 0.5, random.Random(seed))
        if isinstance(builder, InCatalogue):
            texts = [question.fields["question"] for question in haystack.questions]
            lines = [needle.text for needle in haystack.needles]
        else:
            texts = [re.search(r"for later: (.*)\n", needle.text)[1] for needle in haystack.needles]
            lines = haystack.questions[0].fields["catalogue"].splitlines()
        assert len(set(lines)) == len(lines)
        for text in texts:
            # BFCL asks some things twice, of other functions.
            assert any(
                all(
                    line in {function.line for function in request.candidates}
                    or not request.may_be_served_by(by_line[line])
                    for line in lines
                )
                for request in every
                if request.text == text
            )


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"absent_share": 2}, "absent_share=2; use a number from 0 to 1"),
        ({"absent_share": True}, "absent_share=True"),
        ({"tool_choice": "any"}, "tool_choice='any'; use auto or required"),
        ({"tool_choice": "required", "absent_share": 0.2}, "forces a call; use 0"),
    ],
)
def test_parameters_out_of_range_are_refused(metadata, message):
    with pytest.raises(ConfigError, match=message):
        InCatalogue.from_metadata(metadata)
