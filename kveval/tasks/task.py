"""A task, and a cell: the task at one context length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kveval.config.task import HaystackStyle
from kveval.tasks.builders.base import Builder, ChatForm
from kveval.tasks.references.form import ReferenceForm


@dataclass(frozen=True, slots=True)
class Cell:
    """One (task, context_length) pair with what decides its samples.

    Attributes:
        context_length: prompt tokens the engine sees, template and question included, output excluded.
        samples: number of samples, > 0.
        questions_per_haystack: samples that share one context, > 0.
        seed: seeds all randomness, together with the task name, the context length and the haystack index.
        grown_from: numbers of samples the cell was planned with before, if samples were added to it. These are drawn as
            they were.
    """

    task: str
    context_length: int
    samples: int
    questions_per_haystack: int
    seed: int
    haystack_style: HaystackStyle
    grown_from: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """A task as its lm-eval YAML declares it.

    Attributes:
        render: lm-eval's ``doc_to_text`` of one document, a dict with ``context``, ``question`` and what else the
            YAML names.
        score: lm-eval's ``process_results``: (doc, output text) -> metrics in [0, 1]. ``metrics["score"]`` decides;
            there is none for a doc with ``scored`` False.
        builder: plans the haystacks of a cell. None for fixed prompts.
        answer_prefix: lm-eval's ``gen_prefix`` of one document: text a base model continues; unused in chat prompts.
        stop: strings that end the output of completion prompts; unused in chat prompts.
        chat_form: what its prompts become on a chat endpoint. None if they are text only.
        reference: what its right answers look like as text. None if its YAML says nothing about them.
    """

    name: str
    family: str
    version: str
    description: str
    render: Callable[[Mapping[str, Any]], str]
    score: Callable[[Mapping[str, Any], str], dict[str, float]]
    builder: Builder | None
    max_output_tokens: int
    stop: tuple[str, ...] = ()
    answer_prefix: Callable[[Mapping[str, Any]], str] = lambda _: ""
    chat_form: ChatForm | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    reference: ReferenceForm | None = None
