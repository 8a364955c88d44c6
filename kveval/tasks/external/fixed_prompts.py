"""Makes samples of prompts that are fixed: kveval assembles nothing, and their lengths are what they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kveval.config.values import LONGEST_CONTEXT_TOKENS
from kveval.errors import PlanError
from kveval.tasks.assembly.chat import ChatTemplate, Messages
from kveval.tasks.assembly.prompt import PromptFormat, PromptStyle
from kveval.tasks.references.reference import Reference
from kveval.tasks.sample import Chat, Prompt, Sample, shared_prefix
from kveval.tasks.task import Task

SHORTEST_BIN_TOKENS = 1024
_SHOWN_CHARACTERS = 300
_PIECE_CHARACTERS = 1 << 18
_SPARE_TOKENS_PER_PIECE = 64


@dataclass(frozen=True, slots=True)
class FixedPrompt:
    """One prompt as its author wrote it.

    Attributes:
        where: its place as messages name it: ``prompts.jsonl line 7``.
        content: one user turn, or a whole conversation.
        tools: functions the model may call; `content` is then a conversation and goes to the chat endpoint.
        cluster: prompts of one cluster are not independent of each other; None if this one is.
        doc: what its task's `score` reads beside ``answers``.
        address: part of its sample_id, for tasks that may hold the same prompt twice.
        reference: the right answer as its author would have it written. No part of its sample_id.
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
    reference: Reference | None = None


@dataclass(frozen=True, slots=True)
class FixedPromptTask:
    """A task whose prompts are fixed.

    Attributes:
        task: its name, version and scorer; it has no builder.
        prompts: returns its prompts in order, in a prompt style.
    """

    task: Task
    prompts: Callable[[PromptStyle], Sequence[FixedPrompt]]


def with_output_tokens(fixed: FixedPromptTask, output_tokens: int | None) -> FixedPromptTask:
    """Returns a task whose prompts all have this output budget; the same task for None."""
    if output_tokens is None:
        return fixed

    def prompts(style: PromptStyle) -> Sequence[FixedPrompt]:
        return [replace(prompt, max_output_tokens=output_tokens) for prompt in fixed.prompts(style)]

    return FixedPromptTask(replace(fixed.task, max_output_tokens=output_tokens), prompts)


def length_bin(tokens: int) -> int:
    """Returns the context_length that counts a prompt: the next power of two, at least 1024; 1025 gives 2048."""
    return max(SHORTEST_BIN_TOKENS, 1 << (tokens - 1).bit_length())


def fixed_prompt_samples(
    fixed: FixedPromptTask, prompt_format: PromptFormat, chat: ChatTemplate, most_tokens: int = LONGEST_CONTEXT_TOKENS
) -> list[Sample]:
    """Makes a sample of every prompt, in order.

    The prompts of a cluster are one haystack, and share the tokens that all of them begin with.

    Args:
        most_tokens: what the servers take. A prompt that is far longer is refused before all of it is encoded.

    Raises:
        PlanError: messages cannot be rendered, a prompt is far too long, or appears twice. Names the prompt.
    """
    prompts = fixed.prompts(prompt_format.style)
    for prompt in prompts:
        _check_length(prompt, prompt_format, most_tokens)
    token_ids = [_token_ids(prompt, prompt_format, chat) for prompt in prompts]
    shared: dict[str | None, np.ndarray] = {}
    for prompt, ids in zip(prompts, token_ids, strict=True):
        shared[prompt.cluster] = shared_prefix(shared.get(prompt.cluster, ids), ids)
    samples: dict[str, Sample] = {}
    for prompt, ids in zip(prompts, token_ids, strict=True):
        begins = shared_prefix(ids, ids) if prompt.cluster is None else shared[prompt.cluster]
        sample = _sample(fixed.task, prompt, Prompt(begins, ids[len(begins) :]), chat)
        if sample.sample_id in samples:
            earlier = samples[sample.sample_id].doc["source"]
            raise PlanError(f"{prompt.where}: the same prompt and answer as {earlier}; use: each of them once")
        samples[sample.sample_id] = sample
    return list(samples.values())


def _check_length(prompt: FixedPrompt, prompt_format: PromptFormat, most_tokens: int) -> None:
    """Encodes a very long text piece by piece, and raises PlanError as soon as it is too long.

    A tokenizer takes minutes and gigabytes for a hundred megabytes. A text that is cut has a few more tokens than the
    whole, so this leaves a prompt that is a little too long to the exact count.
    """
    text = prompt.content if isinstance(prompt.content, str) else "".join(_texts([prompt.content, prompt.tools]))
    if len(text) <= _PIECE_CHARACTERS:
        return
    tokens = 0
    for start in range(0, len(text), _PIECE_CHARACTERS):
        tokens += len(prompt_format.encode(text[start : start + _PIECE_CHARACTERS])) - _SPARE_TOKENS_PER_PIECE
        if tokens > most_tokens:
            raise PlanError(
                f"{prompt.where}: {len(text):,} characters are more tokens than the {most_tokens:,} that fit; "
                "use: a shorter prompt"
            )


def _texts(value: Any) -> Iterator[str]:
    """Yields the texts in messages and tools as they are: escaped, as in JSON, they would have more tokens."""
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            rest.extend(one.values())
        elif isinstance(one, list | tuple):
            rest.extend(one)


def _token_ids(prompt: FixedPrompt, prompt_format: PromptFormat, chat: ChatTemplate) -> np.ndarray:
    if isinstance(prompt.content, str):
        return np.concatenate(
            (prompt_format.prefix_ids, prompt_format.encode(prompt.content), prompt_format.suffix_ids)
        )
    if prompt_format.style != "chat" and not prompt.tools:
        raise PlanError(
            f"{prompt.where}: messages need a model with a chat template and prompt_style auto or chat; "
            "use: prompt instead of messages"
        )
    try:
        return chat.token_ids(prompt.content, prompt.tools)
    except PlanError as error:
        raise PlanError(f"{prompt.where}: {error}") from error


def _sample(task: Task, fixed: FixedPrompt, prompt: Prompt, chat: ChatTemplate) -> Sample:
    identity = [task.name, task.version, fixed.max_output_tokens, list(fixed.stop), fixed.address]
    content = [list(fixed.answers), dict(fixed.doc), [dict(tool) for tool in fixed.tools], prompt.sha256()]
    sample_id = hashlib.sha256(json.dumps([*identity, *content]).encode()).hexdigest()[:16]
    cluster = hashlib.sha256(json.dumps([task.name, fixed.cluster]).encode()).hexdigest()[:16]
    return Sample(
        sample_id=sample_id,
        haystack_id=sample_id if fixed.cluster is None else cluster,
        task=task.name,
        family=task.family,
        context_length=length_bin(len(prompt)),
        prompt=prompt,
        depth_percent=None,
        doc={
            "question": f"{fixed.where}: {_end_of(fixed.content)}",
            "answers": list(fixed.answers),
            "distractors": [],
            "absent": False,
            "excerpts": [],
            "source": fixed.where,
            **fixed.doc,
        },
        max_output_tokens=fixed.max_output_tokens,
        stop=fixed.stop,
        chat=Chat(tuple(fixed.content), fixed.tools, template_kwargs=chat.variables)
        if fixed.tools and not isinstance(fixed.content, str)
        else None,
        reference=fixed.reference,
    )


def _end_of(content: str | Messages) -> str:
    """Returns the end of what is asked, long enough to recognize the prompt."""
    if not isinstance(content, str):
        asked = [message for message in content if message["role"] != "assistant"] or content
        content = str(asked[-1].get("content") or "")
    text = content.strip()
    return text if len(text) <= _SHOWN_CHARACTERS else f"…{text[-_SHOWN_CHARACTERS:]}"
