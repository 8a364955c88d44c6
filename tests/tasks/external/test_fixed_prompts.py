from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kveval.errors import ConfigError, PlanError
from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.external.fixed_prompts import (
    FixedPrompt,
    FixedPromptTask,
    fixed_prompt_samples,
    length_bin,
)
from kveval.tasks.external.prompt_rows import read_prompts
from kveval.tasks.external.row_scorers import score_row
from kveval.tasks.sample import Sample
from kveval.tasks.task import Task

STAND_IN = PromptFormat.stand_in()
NO_CHAT = ChatTemplate(Path("/nowhere"), {})


def samples_of(prompts: Sequence[FixedPrompt], **fields: Any) -> list[Sample]:
    task = Task("mine", "own", "1", "", str, score_row, None, 256, **fields)
    return fixed_prompt_samples(FixedPromptTask(task, lambda _: prompts), STAND_IN, NO_CHAT)


def prompt(text: str, line: int = 1, **fields: Any) -> FixedPrompt:
    values = {"answers": ("blue",), "max_output_tokens": 16, "doc": {"scorer": "contains"}, **fields}
    return FixedPrompt(where=f"prompts.jsonl line {line}", content=text, **values)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(1, 1024), (1024, 1024), (1025, 2048), (2048, 2048), (5000, 8192), (131072, 131072), (131073, 262144)],
)
def test_lengths_are_counted_under_the_next_power_of_two(tokens: int, expected: int) -> None:
    assert length_bin(tokens) == expected


def test_a_prompt_is_sent_as_it_is() -> None:
    text = "What is it?  (two spaces)\n"
    (sample,) = samples_of([prompt(text)])
    assert STAND_IN.decode(sample.prompt.token_ids()) == text
    assert (sample.task, sample.family, sample.context_length, sample.depth_percent) == ("mine", "own", 1024, None)
    assert (sample.doc["answers"], sample.doc["absent"], sample.max_output_tokens) == (["blue"], False, 16)
    assert sample.doc["question"] == f"prompts.jsonl line 1: {text.strip()}"
    json.dumps(dict(sample.doc), allow_nan=False)


def test_of_a_long_prompt_only_the_end_is_kept() -> None:
    (sample,) = samples_of([prompt("word " * 5000 + "And the question?")])
    assert sample.context_length == length_bin(len(sample.prompt)) > 4096
    assert len(sample.doc["question"]) < 400
    assert sample.doc["question"].endswith("And the question?")


def test_prompts_of_a_cluster_share_what_they_begin_with() -> None:
    text = "A long document. " * 200
    samples = samples_of(
        [
            prompt(text + "First?", 1, cluster="doc"),
            prompt(text + "Second, which is another question?", 2, cluster="doc"),
            prompt("Alone?", 3),
            prompt("Also alone?", 4),
        ]
    )
    first, second, alone, other = samples
    assert first.haystack_id == second.haystack_id
    assert len({sample.haystack_id for sample in samples}) == 3
    assert first.prompt.shared is second.prompt.shared
    assert STAND_IN.decode(first.prompt.shared) == text.rstrip()
    for sample in samples:
        assert len(sample.prompt.tail) >= 1
    assert STAND_IN.decode(second.prompt.token_ids()).endswith("another question?")
    assert len(alone.prompt.tail) == len(other.prompt.tail) == 1


def test_a_prompt_that_begins_another_keeps_a_token_of_its_own() -> None:
    samples = samples_of([prompt("Tell me more", 1, cluster="c"), prompt("Tell me more about it", 2, cluster="c")])
    assert [STAND_IN.decode(sample.prompt.token_ids()) for sample in samples] == [
        "Tell me more",
        "Tell me more about it",
    ]
    assert min(len(sample.prompt.tail) for sample in samples) >= 1


def test_ids_depend_on_what_is_asked_and_not_on_the_line() -> None:
    (before,), (after,) = samples_of([prompt("What?", 1)]), samples_of([prompt("What?", 9)])
    assert (before.sample_id, before.haystack_id) == (after.sample_id, after.haystack_id)
    for change in (
        {"answers": ("red",)}, {"max_output_tokens": 17}, {"doc": {"scorer": "exact"}}, {"stop": ("\n",)},
    ):  # fmt: skip
        (other,) = samples_of([prompt("What?", **change)])
        assert other.sample_id != before.sample_id


def test_the_same_prompt_twice_is_refused_with_both_lines() -> None:
    with pytest.raises(PlanError, match=r"line 5: the same prompt and answer as prompts\.jsonl line 2; use"):
        samples_of([prompt("What?", 2), prompt("Other?", 3), prompt("What?", 5)])


def test_messages_need_a_chat_template() -> None:
    conversation = [{"role": "user", "content": "Hello"}]
    with pytest.raises(PlanError, match="line 1: messages need a model with a chat template"):
        samples_of([FixedPrompt("prompts.jsonl line 1", conversation, ("x",), 16)])


def test_messages_are_what_the_models_template_makes_of_them(smollm2: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    conversation = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello, I am Ada."},
        {"role": "assistant", "content": "Hello Ada."},
        {"role": "user", "content": "Who am I?"},
    ]
    rows = [
        {"messages": conversation, "answer": "Ada"},
        {"messages": conversation[1:2], "answer": "Hello", "cluster": "a"},
        {"prompt": "Hello, I am Ada.", "answer": "Hello", "cluster": "b", "max_output_tokens": 9},
    ]
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prompt_format = PromptFormat.load(smollm2)
    samples = fixed_prompt_samples(read_prompts(file, "mine"), prompt_format, ChatTemplate(smollm2, {}))
    tokenizer = AutoTokenizer.from_pretrained(smollm2, local_files_only=True)
    for sample, row in zip(samples[:2], rows[:2], strict=True):
        text = tokenizer.apply_chat_template(row["messages"], tokenize=False, add_generation_prompt=True)
        expected = tokenizer.encode(text, add_special_tokens=False)
        assert sample.prompt.token_ids().tolist() == expected
    # A prompt is one user turn.
    assert np.array_equal(samples[1].prompt.token_ids(), samples[2].prompt.token_ids())
    assert samples[1].stop == ()


def test_a_template_that_refuses_is_named_with_the_line(tmp_path: Path) -> None:
    from support.model_folder import model_dir

    template = "{{ raise_exception('only users here') if messages[0]['role'] != 'user' }}{{ messages[0]['content'] }}"
    chat = ChatTemplate(model_dir(tmp_path, template), {})
    with pytest.raises(PlanError, match="chat template refuses the messages: only users here"):
        chat.token_ids([{"role": "system", "content": "x"}, {"role": "user", "content": "y"}])
    bare = ChatTemplate(model_dir(tmp_path / "bare", None), {})
    with pytest.raises(ConfigError, match="messages need a chat template"):
        bare.token_ids([{"role": "user", "content": "y"}])


def test_an_answer_that_is_begun_is_continued(tmp_path: Path) -> None:
    from support.model_folder import TEMPLATE, model_dir

    chat = ChatTemplate(model_dir(tmp_path, TEMPLATE.replace("{{ mood }}", "")), {})
    begun = [{"role": "user", "content": "y"}, {"role": "assistant", "content": "It is"}]
    assert chat.token_ids(begun)[-1] not in (2, 3)
    assert chat.token_ids(begun[:1])[-1] == 2


def test_rows_with_tools_go_to_the_chat_endpoint(tmp_path: Path) -> None:
    from support.model_folder import model_dir

    template = "{% for tool in tools %}{{ tool['function']['name'] }} {% endfor %}{{ messages[0]['content'] }}"
    tool = {"type": "function", "function": {"name": "look_up"}}
    conversation = [{"role": "user", "content": "Hello"}]
    given = FixedPrompt("prompts.jsonl line 1", conversation, ("[]",), 16, tools=(tool,), doc={"scorer": "tool_call"})
    task = FixedPromptTask(Task("mine", "own", "1", "", str, score_row, None, 256), lambda _: [given])
    chat = ChatTemplate(model_dir(tmp_path, template), {"mood": "calm"})
    (sample,) = fixed_prompt_samples(task, STAND_IN, chat)
    assert sample.chat is not None
    assert (list(sample.chat.messages), sample.chat.tools, sample.chat.tool_choice) == (conversation, (tool,), "auto")
    assert sample.chat.template_kwargs == {"mood": "calm"}
    assert sample.prompt.token_ids().tolist() == chat.encode("look_up Hello").tolist()


def test_a_prompt_that_is_far_too_long_is_refused_before_all_of_it_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []

    def encode(_: PromptFormat, text: str) -> list[int]:
        encoded.append(len(text))
        return [1] * (len(text) // 4)

    monkeypatch.setattr(PromptFormat, "encode", encode)
    task = Task("mine", "own", "1", "", str, score_row, None, 256)
    fixed = FixedPromptTask(task, lambda _: [prompt("word " * 2_000_000)])
    with pytest.raises(
        PlanError, match="line 1: 10,000,000 characters are more tokens than the 100,000 that fit; use: "
    ):
        fixed_prompt_samples(fixed, STAND_IN, NO_CHAT, most_tokens=100_000)
    assert sum(encoded) < 1_000_000


def test_messages_are_measured_by_their_text_and_not_by_its_escapes() -> None:
    task = Task("mine", "own", "1", "", str, score_row, None, 256)
    chinese = FixedPrompt("prompts.jsonl line 1", [{"role": "user", "content": "字" * 60_000}], ("x",), 16)
    with pytest.raises(PlanError, match="line 1: messages need a model with a chat template"):
        fixed_prompt_samples(FixedPromptTask(task, lambda _: [chinese]), STAND_IN, NO_CHAT, most_tokens=100_000)
    far_too_long = replace(chinese, content=[{"role": "user", "content": "字" * 2_000_000}])
    with pytest.raises(PlanError, match="line 1: 2,000,004 characters are more tokens than the 100,000 that fit"):
        fixed_prompt_samples(FixedPromptTask(task, lambda _: [far_too_long]), STAND_IN, NO_CHAT, most_tokens=100_000)
