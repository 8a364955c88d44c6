"""A sample: one question about one haystack, with the prompt that is sent for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kveval.tasks.references.reference import Reference


def shared_prefix(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns the token ids that both prompts begin with, without the last token of the second: it must be computed."""
    size = min(len(first), len(second) - 1)
    differs = np.flatnonzero(first[:size] != second[:size])
    return first[: differs[0] if len(differs) else size]


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """Token ids of one prompt. The part that all samples of a haystack share is held once.

    Attributes:
        shared: int32 [shared_tokens], the same array object for every sample of a haystack.
        tail: int32 [tail_tokens], the rest, which only this sample has.
    """

    shared: np.ndarray
    tail: np.ndarray

    def __len__(self) -> int:
        return len(self.shared) + len(self.tail)

    def token_ids(self) -> np.ndarray:
        """Returns what is sent to the engine, int32 [shared_tokens + tail_tokens]."""
        return np.concatenate((self.shared, self.tail))

    def first(self, tokens: int) -> list[int]:
        """Returns the first ids, at most so many."""
        return [int(token) for token in (*self.shared[:tokens], *self.tail[:tokens])][:tokens]

    def sha256(self) -> str:
        """Hashes the token ids as little-endian int32."""
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
        """Says whether a grammar masks tokens, so that the probabilities reported are not the model's own."""
        return bool(self.tools) and self.tool_choice != "auto"


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One question about one haystack.

    Attributes:
        sample_id: content hash over task, version, prompt token ids, references and output budget;
            equal across variants and machines.
        haystack_id: content hash of the shared context; the cluster this sample belongs to.
        depth_percent: where the answer stands, 0 = start, 100 = end of the context. None if it stands nowhere or in
            several places; `doc["depths_percent"]` has them all.
        doc: the row that the scorer reads, without the context: question, answers, distractors, excerpts of needles.
        max_output_tokens: output budget.
        stop: strings that end the output; empty for chat prompts of kveval's own tasks.
        chat: what is sent to the chat endpoint. None sends the prompt's token ids to the completion endpoint.
        reference: the right answer as text, where the sample's author gave one. None takes that of its task.
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
    reference: Reference | None = None
