"""The nouns of asking: a task, a cell of it, a sample."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

HaystackStyle = Literal["essays", "wikipedia", "generated"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One (task, context_length) pair with what decides its samples.

    Attributes:
        context_length: prompt tokens the engine sees, template and question included, output excluded.
        samples: number of samples, > 0.
        questions_per_haystack: samples that share one context, > 0.
        seed: with the task name, the context length and the haystack index, the address of all randomness.
    """

    task: str
    context_length: int
    samples: int
    questions_per_haystack: int
    seed: int
    haystack_style: HaystackStyle


def shared_prefix(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """What two prompts' token ids begin with; never all of the second, whose last token has to be computed."""
    size = min(len(first), len(second) - 1)
    differs = np.flatnonzero(first[:size] != second[:size])
    return first[: differs[0] if len(differs) else size]


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """Token ids of one prompt, the part it shares with its haystack's other samples held once.

    Attributes:
        shared: int32 [shared_tokens], the same array object for every sample of a haystack.
        tail: int32 [tail_tokens], what only this sample has.
    """

    shared: np.ndarray
    tail: np.ndarray

    def __len__(self) -> int:
        return len(self.shared) + len(self.tail)

    def token_ids(self) -> np.ndarray:
        """int32 [shared_tokens + tail_tokens]: exactly what is sent to the engine."""
        return np.concatenate((self.shared, self.tail))

    def first(self, tokens: int) -> list[int]:
        """Up to so many ids it begins with."""
        return [int(token) for token in (*self.shared[:tokens], *self.tail[:tokens])][:tokens]

    def sha256(self) -> str:
        """Over the token ids as little-endian int32."""
        return hashlib.sha256(self.token_ids().astype("<i4", copy=False).tobytes()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Chat:
    """A prompt as a server's chat endpoint takes it; `Sample.prompt` holds the tokens its template makes of it.

    Attributes:
        messages: in the endpoint's own form, ``{"role": ..., "content": ...}``.
        tools: functions the model may call, ``{"type": "function", "function": {...}}``; empty sends none.
        tool_choice: ``auto`` or ``required``; unused without tools.
        template_kwargs: variables of the chat template.
    """

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str = "auto"
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_constrained(self) -> bool:
        """The engine masks tokens by a grammar, so what it reports as probabilities is not the model's own."""
        return bool(self.tools) and self.tool_choice != "auto"


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One question about one haystack.

    Attributes:
        sample_id: content hash over task, version, prompt token ids, references and output budget;
            equal across variants and machines.
        haystack_id: content hash of the shared context; the cluster this sample belongs to.
        depth_percent: where the answer stands, 0 = start, 100 = end of the context; None when it stands nowhere
            or in several places (`doc["depths_percent"]` then has them all).
        doc: the row lm-eval scores, without the context: question, answers, distractors, excerpts around needles.
        max_output_tokens: output budget.
        stop: strings that end the output; empty for chat prompts of kveval's own tasks.
        chat: what the chat endpoint is sent; None sends the prompt's token ids to the completion endpoint.
    """

    sample_id: str
    haystack_id: str
    task: str
    family: str
    context_length: int
    prompt: Prompt
    depth_percent: float | None
    doc: Mapping[str, Any]
    max_output_tokens: int
    stop: tuple[str, ...] = ()
    chat: Chat | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A task as its lm-eval YAML declares it.

    Attributes:
        render: lm-eval's ``doc_to_text`` of one document, a dict with ``context``, ``question`` and what else the
            YAML names.
        score: lm-eval's ``process_results``: (doc, output text) -> metrics in [0, 1]. ``metrics["score"]`` decides;
            there is none for a doc with ``scored`` False.
        builder: makes the haystacks of a cell; see `kveval.tasks.assembly.haystack`. None where prompts are given.
        answer_prefix: lm-eval's ``gen_prefix`` of one document: text a base model continues; unused in chat prompts.
        stop: strings that end the output of completion prompts; unused in chat prompts.
    """

    name: str
    family: str
    version: str
    description: str
    render: Callable[[Mapping[str, Any]], str]
    score: Callable[[Mapping[str, Any], str], dict[str, float]]
    builder: Any
    max_output_tokens: int
    stop: tuple[str, ...] = ()
    answer_prefix: Callable[[Mapping[str, Any]], str] = lambda _: ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
