"""The text of a prompt around its context: instruction before, question after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kveval.errors import PlanError
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.builders.base import Question
from kveval.tasks.task import Task
from kveval.tasks.user_code import user_code

_CONTEXT = "KVEVALQCONTEXTQMARKER"


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
