from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from support.model_folder import model_dir
from support.samples import sample

from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.assembly.tokenizer import StandInTokenizer
from kveval.tasks.sample import Chat, Prompt, Sample
from kveval.tasks.scoring.model_reasoning import ModelReasoning, read_reasoning

TEMPLATE = (
    "{{% for m in messages %}}<|user|>"
    "{{% if m.reasoning_content %}}{start}{{{{ m.reasoning_content }}}}{end}{{% endif %}}"
    "{{{{ m.content }}}}<|stop|>{{% endfor %}}{{% if add_generation_prompt %}}<|user|>{opens}{{% endif %}}"
)
CHAT = Chat(({"role": "user", "content": "?"},))


def asked(prompt: str, chat: Chat | None = None) -> Sample:
    ids = StandInTokenizer().encode([prompt])[0].ids
    return dataclasses.replace(sample("a", 0), prompt=Prompt(ids[:1], ids[1:]), chat=chat)


def read(folder: Path, start: str, end: str, opens: str = "") -> ModelReasoning:
    template = TEMPLATE.format(start=start, end=end, opens=opens)
    return read_reasoning(StandInTokenizer(), ChatTemplate(model_dir(folder, template), {}), ())


@pytest.mark.parametrize(("start", "opens"), [("<muse>\n", ""), ("<muse>\n", "<muse>\n")])
def test_the_markers_of_the_chat_template_are_read(tmp_path: Path, start: str, opens: str) -> None:
    reasoning = read(tmp_path, start, "\n</muse>\n\n", opens)
    [one] = reasoning.markers
    assert one.models == "the model's chat template"
    for output in ("<muse>it is 1</muse>It is 2.", "it is 1</muse>\n\nIt is 2."):
        assert reasoning.answer_in(asked("What?"), output, (), "stop") == "It is 2."
    assert reasoning.answer_in(asked("What?"), "<muse>it is 1", (), "length") == ""
    assert reasoning.answer_in(asked("What?<muse>\n"), "it is 1", (), "length") == ""


def test_markers_made_of_words_count_at_the_beginning_alone(tmp_path: Path) -> None:
    reasoning = read(tmp_path, "Notes:\n", "\nVerdict:\n")
    assert reasoning.answer_in(asked("?"), "Notes: 1\nVerdict: 2", (), "stop") == "2"
    assert reasoning.answer_in(asked("?"), "My Verdict: 2", (), "stop") == "My Verdict: 2"


@pytest.mark.parametrize(
    ("start", "end"),
    [("<think>\n", "\n</think>\n\n"), ("[THINK]", "[/THINK]"), ("", ""), ("", " and "),
     ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>")],
)  # fmt: skip
def test_a_template_whose_markers_the_table_has_adds_none(tmp_path: Path, start: str, end: str) -> None:
    assert read(tmp_path, start, end).markers == ()


def test_a_template_without_thinking_or_that_refuses_adds_none(tmp_path: Path) -> None:
    assert read_reasoning(StandInTokenizer(), ChatTemplate(model_dir(tmp_path / "a"), {}), ()).markers == ()
    refuses = model_dir(tmp_path / "b", "{{ raise_exception('no') }}")
    assert read_reasoning(StandInTokenizer(), ChatTemplate(refuses, {}), ()).markers == ()
    none = model_dir(tmp_path / "c", None)
    assert read_reasoning(StandInTokenizer(), ChatTemplate(none, {}), ()).markers == ()


@pytest.mark.parametrize(
    "opened",
    ["What?<think>\n", "[THINK]", "<|start|>assistant<|channel|>analysis<|message|>", "<|START_THINKING|>",
     "<|channel>thought\n"],
)  # fmt: skip
def test_an_output_that_begins_inside_the_thinking_is_thinking_until_it_ends(opened: str) -> None:
    reasoning = read_reasoning(StandInTokenizer(), None, ())
    assert reasoning.answer_in(asked(opened), "It could be 1234567.", (), "length") == ""
    assert reasoning.answer_in(asked(opened), "It could be 1234567.", (), "stop") == ""


@pytest.mark.parametrize("closed", ["What?", "<think>\n\n</think>\n\n", "Do not use <think> here. Now:"])
def test_other_prompts_leave_an_output_as_it_is(closed: str) -> None:
    reasoning = read_reasoning(StandInTokenizer(), None, ())
    assert reasoning.answer_in(asked(closed), "It is 1234567.", (), "length") == "It is 1234567."


def test_a_chat_endpoint_may_have_taken_the_thinking_out() -> None:
    reasoning = read_reasoning(StandInTokenizer(), None, ())
    chat = asked("What?<think>\n", CHAT)
    assert reasoning.answer_in(chat, "It is 2.", (), "stop") == "It is 2."
    assert reasoning.answer_in(chat, "<think>it is 1</think>It is 2.", (), "length") == "It is 2."
    assert reasoning.answer_in(chat, "It could be", (), "length") == ""


def test_special_tokens_that_a_server_leaves_out_are_read_from_the_token_ids(tmp_path: Path) -> None:
    special = ("<|START_THINKING|>", "<|END_THINKING|>")
    prompts = PromptFormat.load(model_dir(tmp_path, special=special))
    reasoning = read_reasoning(prompts.tokenizer, None, ())
    one = dataclasses.replace(sample("a", 0), prompt=Prompt(np.array([1], np.int32), prompts.encode("What?")))

    def ids(text: str) -> list[int]:
        return [int(token) for token in prompts.tokenizer.encode_prompt(text).ids]

    spelled = ids("<|START_THINKING|>it is 1<|END_THINKING|>It is 2.<|stop|>")
    assert reasoning.answer_in(one, "it is 1It is 2.", spelled, "stop") == "It is 2."
    assert reasoning.answer_in(one, "it is 1", ids("<|START_THINKING|>it is 1"), "length") == ""
    # Ids of another text prove nothing, and special tokens that mark no thinking change nothing.
    assert reasoning.answer_in(one, "It is 3.", spelled, "stop") == "It is 3."
    assert reasoning.answer_in(one, "It is 4.", ids("It is<|user|> 4.<|stop|>"), "stop") == "It is 4."
