from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.families import build

from kveval.errors import ConfigError
from kveval.resources import tasks_directory
from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.chat_haystack import chat_samples
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.references.forced import forced_text
from kveval.tasks.references.form import ReferenceForm
from kveval.tasks.references.of_sample import references_of
from kveval.tasks.references.reference import NoReference, Piece, Reference
from kveval.tasks.scoring.json_answers import json_values
from kveval.tasks.task import Cell
from kveval.tasks.task_files import list_tasks

NAMES = [info.name for info in list_tasks()]
WITHOUT = {"coverage_list", "coverage_summary"}
CHATML_TOOLS = (tasks_directory() / "tool_calls" / "chatml_tools.jinja").read_text()
COMPLETION = PromptFormat.stand_in()
CHAT = replace(COMPLETION, style="chat")
LENGTHS = {"recite_long": 8192}


@pytest.mark.parametrize("style", [COMPLETION, CHAT], ids=["completion", "chat"])
@pytest.mark.parametrize("name", NAMES)
def test_every_reference_of_a_shipped_task_scores_one_and_every_contrast_less(tasks, name, style):
    task = tasks[name]
    for sample in build(task, LENGTHS.get(name, 4096), samples=6, questions=3, prompt_format=style):
        references = references_of(task, sample, style)
        if name in WITHOUT:
            assert isinstance(references, NoReference)
            continue
        for reference in references.alternatives:
            assert task.score(sample.doc, reference.text)["score"] == 1.0
            forced = forced_text(reference, style)
            assert reference.text.startswith(style.decode(forced.token_ids))
        for reference in references.contrast:
            assert task.score(sample.doc, reference.text)["score"] == 0.0
        assert bool(references.contrast) == (sample.doc["absent"] and "tools" not in name)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITHOUT])
def test_a_completion_continues_the_words_its_prompt_ends_with(tasks, name):
    task = tasks[name]
    sample = build(task, LENGTHS.get(name, 4096), samples=3, questions=3)[0]
    [text, *_] = (reference.text for reference in references_of(task, sample, COMPLETION).alternatives)
    [whole, *_] = (reference.text for reference in references_of(task, sample, CHAT).alternatives)
    prefix = task.answer_prefix(sample.doc)
    assert (prefix + text).endswith(whole)
    lead = sample.doc.get("answer_lead")
    if lead:
        assert (prefix + text).count(lead.strip()) == 1


def test_a_task_without_a_reference_says_why(tasks):
    sample = build(tasks["coverage_summary"], 4096, samples=1, questions=1)[0]
    assert references_of(tasks["coverage_summary"], sample, CHAT) == NoReference("a summary is right in many words")
    silent = replace(tasks["niah_single"], reference=None)
    assert "nothing about a reference" in references_of(silent, sample, CHAT).why


def test_orders_are_forced_up_to_a_limit(tasks):
    task = tasks["niah_multivalue"]
    sample = build(task, 4096, samples=1, questions=1)[0]
    references = references_of(task, sample, CHAT)
    assert len({reference.text for reference in references.alternatives}) == len(references.alternatives) == 24
    five = replace(sample, doc={**sample.doc, "answers": [*sample.doc["answers"], "1234567"]})
    assert "120 orders" in references_of(task, five, CHAT).why


def test_a_template_that_names_no_field_is_the_tasks_fault(tasks):
    form = ReferenceForm.model_validate({"unit": "probability", "text": [{"answer": "{{no_such_field}}"}]})
    task = replace(tasks["niah_single"], reference=form)
    sample = build(task, 2048, samples=1, questions=1)[0]
    with pytest.raises(ConfigError, match=r"'niah_single': metadata\.reference fails: UndefinedError"):
        references_of(task, sample, CHAT)


def test_the_reference_of_a_sample_comes_before_its_tasks(tasks):
    sample = build(tasks["niah_single"], 2048, samples=1, questions=1)[0]
    own = Reference((Piece("It is "), Piece("7", "answer")))
    references = references_of(tasks["niah_single"], replace(sample, reference=own), CHAT)
    assert (references.unit, references.alternatives) == ("token_accuracy", (own,))


def test_an_answer_begins_as_the_chat_template_begins_one(tasks):
    joined = replace(CHAT, answer_joint=" ")
    sample = build(tasks["niah_single"], 2048, samples=1, questions=1)[0]
    [reference] = references_of(tasks["niah_single"], sample, joined).alternatives
    assert reference.text.startswith(" The ")


@pytest.fixture(scope="module")
def tool_samples(smollm2, tasks):
    def samples(template):
        cell = Cell("tools_catalogue", 4096, 10, 5, 1, "generated")
        return chat_samples(tasks["tools_catalogue"], cell, template)

    return samples


HERMES = CHATML_TOOLS.replace(
    "{{ message['content'] }}",
    "{{ message['content'] }}{% for c in message.tool_calls %}\n<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}',
)
LLAMA = CHATML_TOOLS.replace(
    "{{ message['content'] }}",
    "{{ message['content'] }}{% for c in message.tool_calls %}<|python_tag|>"
    '{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}{% endfor %}',
)
MISTRAL = CHATML_TOOLS.replace(
    "{{ message['content'] }}",
    "{% if message.tool_calls %}[TOOL_CALLS][{% for c in message.tool_calls %}"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}'
    "{% if not loop.last %}, {% endif %}{% endfor %}]{% else %} {{ message['content'] }}{% endif %}",
)

MISTRAL_IDS = MISTRAL.replace("| tojson }}}", '| tojson }}, "id": "{{ c.id }}"}')
FLAT = HERMES.replace('"name":', '"function":')


@pytest.mark.parametrize(
    ("template", "begins"),
    [
        (CHATML_TOOLS, "<tool_call>\n"),
        (HERMES, "<tool_call>\n"),
        (LLAMA, "<|python_tag|>"),
        (MISTRAL, "[TOOL_CALLS]"),
        (MISTRAL_IDS, "[TOOL_CALLS]"),
        (FLAT, "<tool_call>\n"),
    ],
    ids=["tags named only", "hermes", "llama", "mistral", "mistral with ids", "function is the name"],
)
def test_calls_are_written_as_the_chat_template_writes_them(tasks, smollm2, tool_samples, template, begins):
    chat = ChatTemplate(smollm2, {}, template)
    prompt_format = PromptFormat.load(smollm2, "chat")
    for sample in tool_samples(chat):
        references = references_of(tasks["tools_catalogue"], sample, prompt_format, chat)
        if sample.doc["absent"]:
            assert "no function fits" in references.why
            continue
        for reference in references.alternatives:
            assert reference.pieces[0] == Piece(begins, "format")
            assert tasks["tools_catalogue"].score(sample.doc, reference.text.split("<|im_end|>")[0])["score"] == 1.0
        reference = references.alternatives[0]
        forced = forced_text(reference, prompt_format)
        written = prompt_format.decode(forced.token_ids)
        assert reference.text.startswith(written)
        assert "<|im_end|>" not in written
        called = json.loads(sample.doc["answers"][0])
        values = "".join(piece.text for piece in reference.pieces if piece.part == "value")
        for call in called:
            assert json.dumps(call["name"]) in values
            assert all(json.dumps(name) in values for name in call["arguments"])
        assert "00000000" not in values
        assert json_values(reference.text)


def test_calls_in_a_form_that_is_not_json_have_no_reference(tasks, smollm2, tool_samples):
    pythonic = CHATML_TOOLS.replace(
        "{{ message['content'] }}",
        "{{ message['content'] }}{% for c in message.tool_calls %}[{{ c.function.name }}(x=[1])]{% endfor %}",
    )
    chat = ChatTemplate(smollm2, {}, pythonic)
    sample = next(sample for sample in tool_samples(chat) if not sample.doc["absent"])
    found = references_of(tasks["tools_catalogue"], sample, CHAT, chat)
    assert "does not show how the model writes function calls" in found.why
