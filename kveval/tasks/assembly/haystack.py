"""Assembles haystacks of exact token length: filler, needles at their depths, and many questions about one context."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from kveval.errors import PlanError
from kveval.tasks.assembly.filler import Filler
from kveval.tasks.assembly.placement import Placed, end_of_filler, interleave, opener, positions
from kveval.tasks.assembly.planned import PlannedHaystack, planned_haystacks
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.assembly.tokenizer import Tokenizer
from kveval.tasks.builders.base import Question
from kveval.tasks.builders.sources import TextSource
from kveval.tasks.sample import Prompt, Sample
from kveval.tasks.task import Cell, Task
from kveval.tasks.user_code import user_code

_EXCERPT_TOKENS = 24
_CONTEXT = "KVEVALQCONTEXTQMARKER"


def build_samples(task: Task, cell: Cell, prompt_format: PromptFormat) -> list[Sample]:
    """Builds all samples of a cell, haystack by haystack.

    ``len(prompt)`` is in [context_length - 8, context_length]. All prompts of a haystack share one prefix array and
    differ in the last few dozen tokens.

    Raises:
        ConfigError: the task's builder fails or returns what it must not.
        PlanError: a haystack does not fit its context_length, or the filler is too short for it.
    """
    return [
        sample for planned in planned_haystacks(task, cell) for sample in _assemble(task, cell, prompt_format, planned)
    ]


def _assemble(task: Task, cell: Cell, prompt_format: PromptFormat, planned: PlannedHaystack) -> list[Sample]:
    plan = planned.haystack
    head, feet = make_frame(task, prompt_format, plan.questions)
    capacity = [cell.context_length - len(head) - len(foot) for foot in feet]
    opens = opener([needle.depth_percent for needle in plan.needles], min(capacity))
    texts = [needle.text if k == opens else needle.lead + needle.text for k, needle in enumerate(plan.needles)]
    planted = [encoding.ids for encoding in prompt_format.tokenizer.encode(texts)]
    planted_tokens = sum(len(ids) for ids in planted)
    _refuse_short(planned, cell.context_length, min(capacity), planted_tokens)

    forbidden = {string.lower() for string in plan.forbidden}
    with user_code(f"{planned.where}: its filler"):
        source = planned.source(cell)
        filler = _filler(source, prompt_format.tokenizer).draw(
            planned.rng, max(capacity) - planted_tokens + 1, forbidden, opens_context=opens is None
        )
    ends = [end_of_filler(filler.cuts, tokens - planted_tokens) for tokens in capacity]
    asked_in = {k: end for question, end in zip(plan.questions, ends, strict=True) for k in question.needles}
    places = positions(
        [needle.depth_percent for needle in plan.needles],
        [len(ids) for ids in planted],
        [asked_in.get(k, min(ends)) + planted_tokens for k in range(len(planted))],
        filler.cuts[: min(ends) + 1],
        plan.least_cut,
        opens,
    )
    context, placed = interleave(filler, planted, places, min(ends))

    shared = np.concatenate((head, context))
    stop = task.stop if prompt_format.style == "completion" else ()
    identity = [task.name, task.version, cell.context_length, task.max_output_tokens, list(stop)]
    fixed = hashlib.sha256(json.dumps(identity).encode())
    fixed.update(shared.astype("<i4", copy=False).tobytes())
    samples = []
    for question, foot, end in zip(plan.questions, feet, ends, strict=True):
        tail = np.concatenate((filler.ids[min(ends) : end], foot))
        digest = fixed.copy()
        digest.update(tail.astype("<i4", copy=False).tobytes())
        digest.update(json.dumps([len(shared) + len(tail), list(question.answers)]).encode())
        own = [placed[k] for k in question.needles]
        depths = [needle.depth_percent(end + planted_tokens) for needle in own]
        samples.append(
            Sample(
                sample_id=digest.hexdigest()[:16],
                haystack_id=fixed.hexdigest()[:16],
                task=task.name,
                family=task.family,
                context_length=cell.context_length,
                prompt=Prompt(shared, tail),
                depth_percent=depths[0] if len(depths) == 1 else None,
                doc=planned.doc(question, depths, [_excerpt(prompt_format, context, needle) for needle in own], source),
                max_output_tokens=task.max_output_tokens,
                stop=stop,
            )
        )
    return samples


def _refuse_short(planned: PlannedHaystack, context_length: int, capacity: int, planted_tokens: int) -> None:
    if planted_tokens > capacity:
        around = context_length - capacity
        raise PlanError(
            f"{planned.where}: the context is too short for its needles; use: {planted_tokens + around} tokens or more "
            f"({len(planned.haystack.needles)} needles need {planted_tokens}, template and question {around})"
        )


def make_frame(
    task: Task, prompt_format: PromptFormat, questions: Sequence[Question]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Returns the token ids around a haystack's context: one head for all questions, and a foot for each.

    Raises:
        PlanError: the text before the context depends on the question, so the questions cannot share a prefix.
    """
    texts = [frame_texts(task, prompt_format, question.fields) for question in questions]
    heads = {head for head, _ in texts}
    if len(heads) != 1:
        raise PlanError(
            f"doc_to_text of task {task.name!r} says something about the question before the context; "
            "use it after the context only, so that questions can share the context"
        )
    head = np.concatenate((prompt_format.prefix_ids, prompt_format.encode(heads.pop())))
    feet = [encoding.ids for encoding in prompt_format.tokenizer.encode([foot for _, foot in texts])]
    return head, [np.concatenate((foot, prompt_format.suffix_ids)) for foot in feet]


def frame_texts(task: Task, prompt_format: PromptFormat, fields: Mapping[str, Any]) -> tuple[str, str]:
    """Renders the task's text before and after the context, with the answer prefix and without the chat template.

    Raises:
        PlanError: ``doc_to_text`` does not hold the context exactly once.
    """
    doc = {**fields, "context": _CONTEXT}
    with user_code(f"task {task.name!r}: doc_to_text or gen_prefix"):
        text, prefix = task.render(doc), task.answer_prefix(doc)
    parts = text.split(_CONTEXT)
    if len(parts) != 2:
        raise PlanError(f"doc_to_text of task {task.name!r} holds the context {len(parts) - 1} times; use it once")
    head, foot = parts
    if prompt_format.style == "chat":
        return head, foot.rstrip()
    # lm-eval's own rule for joining a question and its gen_prefix
    joint = " " if foot and prefix and not (foot[-1].isspace() or prefix[0].isspace()) else ""
    return head, foot + joint + prefix


@lru_cache(maxsize=8)
def _filler(source: TextSource, tokenizer: Tokenizer) -> Filler:
    """Returns the same `Filler` for the same source and tokenizer, so that text is tokenized once."""
    return Filler(source, tokenizer)


def _excerpt(prompt_format: PromptFormat, context: np.ndarray, needle: Placed) -> str:
    first = max(needle.start - _EXCERPT_TOKENS, 0)
    text = prompt_format.decode(context[first : needle.start + needle.tokens + _EXCERPT_TOKENS])
    return " ".join(text.replace("\ufffd", "").split())
