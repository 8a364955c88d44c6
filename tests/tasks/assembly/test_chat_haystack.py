"""What holds for tasks that can be asked as text and through a chat endpoint, in either form."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from scipy.stats import chisquare

from kveval.errors import PlanError
from kveval.resources import tasks_directory
from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.chat_haystack import chat_samples
from kveval.tasks.assembly.haystack import build_samples
from kveval.tasks.assembly.placement import SLACK_TOKENS
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.outcome import classify
from kveval.tasks.task import Cell

NAMES = ["tools_catalogue", "tools_conversation", "fact_update"]
FORMS = ["text", "chat"]
ABSENT_SHARE = 0.2
CHATML_TOOLS = (tasks_directory() / "tool_calls" / "chatml_tools.jinja").read_text()

every_task = pytest.mark.parametrize("name", NAMES)
every_form = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(scope="module")
def template(smollm2):
    return ChatTemplate(smollm2, {}, CHATML_TOOLS)


@pytest.fixture(scope="module")
def build(tasks, template):
    @cache
    def build(name, form, context_length, samples=20, seed=1, questions=10):
        cell = Cell(name, context_length, samples, questions, seed, "generated")
        if form == "chat":
            return chat_samples(tasks[name], cell, template)
        return build_samples(tasks[name], cell, PromptFormat.stand_in())

    return build


@pytest.mark.parametrize("context_length", [2048, 8192])
@every_form
@every_task
def test_whoever_knows_the_answers_scores_one_on_prompts_of_exact_length(tasks, build, name, form, context_length):
    for sample in build(name, form, context_length):
        assert context_length - SLACK_TOKENS <= len(sample.prompt) <= context_length
        text = sample.doc["answers"][0]
        metrics = tasks[name].score(sample.doc, text)
        assert metrics["score"] == 1.0
        assert classify(text, "stop", metrics, sample.doc) == "correct"
        json.dumps(dict(sample.doc), allow_nan=False)


@every_form
@every_task
def test_ten_questions_share_one_context(build, name, form):
    samples = build(name, form, 8192)
    for haystack in (samples[:10], samples[10:]):
        assert len({sample.haystack_id for sample in haystack}) == 1
        assert len({id(sample.prompt.shared) for sample in haystack}) == 1
        assert len({sample.doc["question"] for sample in haystack}) == 10
        assert min(len(sample.prompt.shared) for sample in haystack) > 0.9 * 8192
    assert samples[0].haystack_id != samples[10].haystack_id
    assert len({sample.sample_id for sample in samples}) == 20


@every_form
@every_task
def test_the_answer_to_another_question_scores_nothing(tasks, build, name, form):
    samples = [sample for sample in build(name, form, 8192) if not sample.doc["absent"]]
    others = samples[1:] + samples[:1]
    scores = [
        tasks[name].score(sample.doc, other.doc["answers"][0])["score"]
        for sample, other in zip(samples, others, strict=True)
    ]
    assert sum(scores) == 0


@pytest.mark.parametrize("samples", [7, 33])
@every_form
@every_task
def test_an_abstainer_scores_exactly_the_absent_share(tasks, build, name, form, samples):
    built = build(name, form, 2048, samples)
    right = [tasks[name].score(sample.doc, "not stated, no function fits")["score"] for sample in built]
    assert sum(right) == sum(sample.doc["absent"] for sample in built) == int(samples * ABSENT_SHARE)
    for sample in built:
        outcome = classify("no, not stated", "stop", tasks[name].score(sample.doc, "no, not stated"), sample.doc)
        assert outcome == ("correct" if sample.doc["absent"] else "abstained")


@every_form
@every_task
def test_samples_depend_on_their_address_only(tasks, build, template, name, form):
    once = build(name, form, 2048)
    cell = Cell(name, 2048, 20, 10, 1, "generated")
    again = (
        chat_samples(tasks[name], cell, template)
        if form == "chat"
        else build_samples(tasks[name], cell, PromptFormat.stand_in())
    )
    for sample, same in zip(once, again, strict=True):
        assert sample.sample_id == same.sample_id
        assert sample.doc == same.doc
        assert sample.prompt.sha256() == same.prompt.sha256()
    others = {sample.sample_id for sample in build(name, form, 2048, seed=2)}
    assert others.isdisjoint(sample.sample_id for sample in once)


@every_form
@every_task
def test_answers_stand_at_every_depth(build, name, form):
    samples = build(name, form, 4096, samples=100)
    depths = [depth for sample in samples for depth in sample.doc["depths_percent"]]
    assert len(depths) >= 80
    counts, _ = np.histogram(depths, bins=10, range=(0, 100))
    assert chisquare(counts).pvalue > 0.05


@every_task
def test_messages_and_tools_render_to_the_prompt(build, template, name):
    for sample in build(name, "chat", 2048):
        chat = sample.chat
        assert np.array_equal(template.token_ids(chat.messages, chat.tools), sample.prompt.token_ids())
        assert [message["role"] for message in chat.messages] == ["user", "assistant"] * (len(chat.messages) // 2) + [
            "user"
        ]
        assert bool(chat.tools) == (sample.family == "tool_calls")
        assert sample.doc["asked_through"].startswith("chat endpoint")
    assert all(sample.chat is None for sample in build(name, "text", 2048))


@every_task
def test_what_does_not_fit_is_refused_with_the_minimum(tasks, template, name):
    with pytest.raises(PlanError, match=rf"'{name}' at context_length 120, haystack 0: .* use: \d+ tokens or more"):
        chat_samples(tasks[name], Cell(name, 120, 2, 1, 1, "generated"), template)


def test_a_catalogue_longer_than_its_functions_is_refused(tasks, template):
    with pytest.raises(PlanError, match="'bfcl functions' is used up before context_length 2000000"):
        chat_samples(tasks["tools_catalogue"], Cell("tools_catalogue", 2_000_000, 1, 1, 1, "generated"), template)


def test_real_prose_fills_conversations_too(tasks, template):
    cell = Cell("fact_update", 4096, 3, 3, 1, "essays")
    for sample in chat_samples(tasks["fact_update"], cell, template):
        assert 4088 <= len(sample.prompt) <= 4096
        assert sample.doc["haystack_style"] == "essays"
