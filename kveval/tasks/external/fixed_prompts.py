"""Prompts that are given as they are: nothing is assembled, lengths are what they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from kveval.errors import PlanError
from kveval.tasks.assembly.chat import ChatTemplate, Messages
from kveval.tasks.assembly.prompt import PromptFormat, PromptStyle
from kveval.tasks.task import Chat, Prompt, Sample, Task, shared_prefix

SHORTEST_BIN_TOKENS = 1024
_SHOWN_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class FixedPrompt:
    """One prompt as its owner wrote it.

    Attributes:
        where: what messages call it: ``prompts.jsonl line 7``.
        content: one user turn, or a whole conversation.
        tools: what the model may call; then `content` is a conversation, sent to the chat endpoint.
        cluster: prompts of one cluster are not independent of each other; None = this one is.
        doc: what its task's `score` reads beside ``answers``.
        address: part of its sample_id where equal prompts may be given twice.
    """

    where: str
    content: str | Messages
    answers: tuple[str, ...]
    max_output_tokens: int
    stop: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    cluster: str | None = None
    doc: Mapping[str, Any] = field(default_factory=dict)
    address: str = ""


@dataclass(frozen=True, slots=True)
class WithTools:
    """In place of a given task's builder: some of its prompts can be asked through the chat endpoint only."""

    chat_form: Literal["tools"] = "tools"


@dataclass(frozen=True, slots=True)
class FixedPromptTask:
    """A task whose prompts are given.

    Attributes:
        task: its name, version and scorer; its builder is None or `WithTools`.
        prompts: by prompt style, in order.
    """

    task: Task
    prompts: Callable[[PromptStyle], Sequence[FixedPrompt]]


def length_bin(tokens: int) -> int:
    """The context_length a given prompt is counted under: the next power of two, from 1024 up; 1025 to 2048 is 2048."""
    return max(SHORTEST_BIN_TOKENS, 1 << (tokens - 1).bit_length())


def fixed_prompt_samples(given: FixedPromptTask, prompt_format: PromptFormat, chat: ChatTemplate) -> list[Sample]:
    """Every prompt as a sample, in order.

    The prompts of a cluster are one haystack: what all of them begin with is their shared part.

    Raises:
        PlanError: messages that cannot be rendered, or the same prompt twice; names the prompt.
    """
    prompts = given.prompts(prompt_format.style)
    token_ids = [_token_ids(prompt, prompt_format, chat) for prompt in prompts]
    shared: dict[str | None, np.ndarray] = {}
    for prompt, ids in zip(prompts, token_ids, strict=True):
        shared[prompt.cluster] = shared_prefix(shared.get(prompt.cluster, ids), ids)
    samples: dict[str, Sample] = {}
    for prompt, ids in zip(prompts, token_ids, strict=True):
        begins = shared_prefix(ids, ids) if prompt.cluster is None else shared[prompt.cluster]
        sample = _sample(given.task, prompt, Prompt(begins, ids[len(begins) :]), chat)
        if sample.sample_id in samples:
            earlier = samples[sample.sample_id].doc["source"]
            raise PlanError(f"{prompt.where}: the same prompt and answer as {earlier}; allowed: every one once")
        samples[sample.sample_id] = sample
    return list(samples.values())


def check_fits(samples: Sequence[Sample], window: int, whose: str, *, least_output_tokens: int = 1) -> None:
    """Raises PlanError naming the first prompt that does not fit `window` tokens with its output.

    Args:
        least_output_tokens: room for an output, whatever a prompt's own budget.
    """
    for sample in samples:
        room = window - max(sample.max_output_tokens, least_output_tokens)
        if len(sample.prompt) > room:
            raise PlanError(
                f"{sample.doc['source']}: {len(sample.prompt)} prompt tokens with {sample.max_output_tokens} output "
                f"tokens do not fit {whose} {window}; allowed: prompts of up to {max(room, 0)}"
            )


def _token_ids(prompt: FixedPrompt, prompt_format: PromptFormat, chat: ChatTemplate) -> np.ndarray:
    if isinstance(prompt.content, str):
        return np.concatenate(
            (prompt_format.prefix_ids, prompt_format.encode(prompt.content), prompt_format.suffix_ids)
        )
    if prompt_format.style != "chat" and not prompt.tools:
        raise PlanError(
            f"{prompt.where}: messages need a model with a chat template and prompt_style auto or chat; "
            "allowed here: prompt"
        )
    try:
        return chat.token_ids(prompt.content, prompt.tools)
    except PlanError as error:
        raise PlanError(f"{prompt.where}: {error}") from error


def _sample(task: Task, given: FixedPrompt, prompt: Prompt, chat: ChatTemplate) -> Sample:
    identity = [task.name, task.version, given.max_output_tokens, list(given.stop), given.address]
    content = [list(given.answers), dict(given.doc), [dict(tool) for tool in given.tools], prompt.sha256()]
    sample_id = hashlib.sha256(json.dumps([*identity, *content]).encode()).hexdigest()[:16]
    cluster = hashlib.sha256(json.dumps([task.name, given.cluster]).encode()).hexdigest()[:16]
    return Sample(
        sample_id=sample_id,
        haystack_id=sample_id if given.cluster is None else cluster,
        task=task.name,
        family=task.family,
        context_length=length_bin(len(prompt)),
        prompt=prompt,
        depth_percent=None,
        doc={
            "question": f"{given.where}: {_end_of(given.content)}",
            "answers": list(given.answers),
            "distractors": [],
            "absent": False,
            "excerpts": [],
            "source": given.where,
            **given.doc,
        },
        max_output_tokens=given.max_output_tokens,
        stop=given.stop,
        chat=Chat(tuple(given.content), given.tools, template_kwargs=chat.variables)
        if given.tools and not isinstance(given.content, str)
        else None,
    )


def _end_of(content: str | Messages) -> str:
    """The end of what is asked: enough to recognize it by."""
    if not isinstance(content, str):
        asked = [message for message in content if message["role"] != "assistant"] or content
        content = str(asked[-1].get("content") or "")
    text = content.strip()
    return text if len(text) <= _SHOWN_CHARACTERS else f"…{text[-_SHOWN_CHARACTERS:]}"
