"""Token-exact assembly of haystacks: filler, needles at asked depths, and many questions about one context."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from kveval.errors import ConfigError, PlanError
from kveval.tasks.assembly.filler import Cut, Filler, TextSource
from kveval.tasks.assembly.placement import Placed, end_of_filler, interleave, opener, positions
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.assembly.tokenizer import Tokenizer
from kveval.tasks.corpora.texts import source
from kveval.tasks.seeding import seeded
from kveval.tasks.task import Cell, Prompt, Sample, Task
from kveval.tasks.user_code import user_code

_CONTEXT = "KVEVALQCONTEXTQMARKER"
_EXCERPT_TOKENS = 24


@dataclass(frozen=True, slots=True)
class Needle:
    """Text to plant.

    Attributes:
        text: without space around it.
        depth_percent: where, in [0, 100].
        lead: what separates it from the text before.
    """

    text: str
    depth_percent: float
    lead: str = " "


@dataclass(frozen=True, slots=True)
class Question:
    """One question about a haystack.

    Attributes:
        fields: what the task's ``doc_to_text`` and ``gen_prefix`` name, without ``context``. JSON-able.
        answers: the references; whether a complete answer holds all of them or any is the task's scorer's to say.
        needles: indexes of the needles that hold the answers.
        distractors: planted values that answer other questions.
        absent: the haystack does not hold the answer, and saying so is right.
    """

    fields: Mapping[str, Any]
    answers: tuple[str, ...]
    needles: tuple[int, ...] = ()
    distractors: tuple[str, ...] = ()
    absent: bool = False


@dataclass(frozen=True, slots=True)
class Haystack:
    """What a builder decides about one context; the rest is assembly.

    Attributes:
        forbidden: strings (keys, values) that must not occur in the filler; case does not matter.
        source: filler of the builder's own (documents, code); None takes the cell's haystack style.
        retell: what the builder makes of the cell's haystack style.
        least_cut: where needles may be put at worst: between words, sentences or whole pieces.
    """

    needles: Sequence[Needle]
    questions: Sequence[Question]
    forbidden: frozenset[str] = frozenset()
    source: TextSource | None = None
    least_cut: Cut = Cut.WORD
    retell: Callable[[TextSource], TextSource] = lambda source: source


class Builder(Protocol):
    """A task's one idea: what to plant and what to ask."""

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        """Plans one haystack.

        Args:
            numbers: the samples' numbers in their cell; one question each.
            depth_shift: in [0, 1), stratified over the haystacks of a cell. Put needle k of K at depth
                100 * (k + depth_shift) / K (see `depths_percent`): needles then cover the context evenly in every
                haystack, and stand in different places in each.
            rng: seeded by (task, context_length, haystack index, seed).
        """
        ...


def depths_percent(needles: int, depth_shift: float) -> list[float]:
    """Evenly spaced depths in [0, 100), shifted by depth_shift * spacing."""
    return [100 * (k + depth_shift) / needles for k in range(needles)]


def haystack_numbers(cell: Cell, builder: object = None) -> list[range]:
    """Sample numbers of each haystack of a cell: as few haystacks as the cell allows, of equal size within one.

    A builder that plants whole documents may also have ``most_questions(context_length)``: how many fit.
    """
    most = getattr(builder, "most_questions", None)
    questions = min(cell.questions_per_haystack, most(cell.context_length)) if most else cell.questions_per_haystack
    count = -(-cell.samples // questions)
    bounds = [h * cell.samples // count for h in range(count + 1)]
    return [range(first, past) for first, past in pairwise(bounds)]


def build_samples(task: Task, cell: Cell, prompt_format: PromptFormat) -> list[Sample]:
    """All samples of a cell, haystack by haystack. See `iter_haystacks`."""
    return [sample for samples in iter_haystacks(task, cell, prompt_format) for sample in samples]


def iter_haystacks(task: Task, cell: Cell, prompt_format: PromptFormat) -> Iterator[list[Sample]]:
    """Samples of a cell, one list per haystack.

    ``len(prompt)`` is in [context_length - 8, context_length]. All prompts of a haystack share one prefix array and
    differ in the last few dozen tokens.

    Raises:
        PlanError: a haystack does not fit its context_length or the filler is too short for it.
    """
    for index, (numbers, depth_shift) in enumerate(numbers_and_phases(task, cell)):
        yield _assemble(task, cell, prompt_format, index, numbers, depth_shift)


def numbers_and_phases(task: Task, cell: Cell) -> Iterator[tuple[range, float]]:
    """Of every haystack of a cell: its samples' numbers, and its depth_shift as `Builder.haystack` takes it."""
    with user_code(f"task {task.name!r}: most_questions of its builder"):
        numbers = haystack_numbers(cell, task.builder)
    rng = seeded(task.name, cell.context_length, "phases", cell.seed)
    strata = list(range(len(numbers)))
    rng.shuffle(strata)
    for own, stratum in zip(numbers, strata, strict=True):
        yield own, (stratum + rng.random()) / len(numbers)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Token ids around the context: one head for all questions, one foot for each."""

    head: np.ndarray
    feet: list[np.ndarray]


def _assemble(
    task: Task, cell: Cell, prompt_format: PromptFormat, index: int, numbers: range, depth_shift: float
) -> list[Sample]:
    rng = seeded(task.name, cell.context_length, index, cell.seed)
    where = f"task {task.name!r} at context_length {cell.context_length}, haystack {index}"
    plan = plan_haystack(f"{where}: its builder", task.builder, numbers, depth_shift, rng)
    frame = _frame(task, prompt_format, plan)
    room = [cell.context_length - len(frame.head) - len(foot) for foot in frame.feet]
    opens = opener([needle.depth_percent for needle in plan.needles], min(room))
    planted = _encode_needles(prompt_format, plan.needles, opens)
    planted_tokens = sum(len(ids) for ids in planted)
    _refuse_short(task, cell, index, min(room), planted_tokens, len(planted))

    forbidden = {string.lower() for string in plan.forbidden}
    with user_code(f"{where}: its filler"):
        text = plan.source or plan.retell(source(cell.haystack_style))
        filler = _filler(text, prompt_format.tokenizer).draw(
            rng, max(room) - planted_tokens + 1, forbidden, opens_context=opens is None
        )
    ends = [end_of_filler(filler.cuts, tokens - planted_tokens) for tokens in room]
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

    shared = np.concatenate((frame.head, context))
    stop = task.stop if prompt_format.style == "completion" else ()
    identity = [task.name, task.version, cell.context_length, task.max_output_tokens, list(stop)]
    fixed = hashlib.sha256(json.dumps(identity).encode())
    fixed.update(shared.astype("<i4", copy=False).tobytes())
    samples = []
    for question, foot, end in zip(plan.questions, frame.feet, ends, strict=True):
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
                doc={
                    **question.fields,
                    "answers": list(question.answers),
                    "distractors": list(question.distractors),
                    "absent": question.absent,
                    "depths_percent": depths,
                    "excerpts": [_excerpt(prompt_format, context, needle) for needle in own],
                    "haystack_style": text.name,
                    "haystack": index,
                },
                max_output_tokens=task.max_output_tokens,
                stop=stop,
            )
        )
    return samples


def plan_haystack(who: str, builder: Builder, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
    """A builder's haystack, held to what `Haystack`, `Needle` and `Question` say.

    Args:
        who: the builder, as the message names it.

    Raises:
        ConfigError: the builder fails, or returns what would show late or only as scores of zero.
    """
    with user_code(who):
        plan = builder.haystack(numbers, depth_shift, rng)
        fault = next(_faults(plan, numbers), None)
    if fault:
        raise ConfigError(f"{who} {fault}")
    return plan


def _faults(plan: Any, numbers: range) -> Iterator[str]:
    if not isinstance(plan, Haystack):
        yield f"returns {type(plan).__name__}; allowed: a Haystack"
        return
    if len(plan.questions) != len(numbers):
        yield f"returns {len(plan.questions)} questions for {len(numbers)} samples; allowed: one for each of `numbers`"
    # A lone str would be taken for its letters.
    if isinstance(plan.forbidden, str) or not _are_texts(plan.forbidden):
        yield f"returns forbidden={plan.forbidden!r}; allowed: a set of texts, none empty"
    for k, needle in enumerate(plan.needles):
        if not (_are_texts([needle.text]) and isinstance(needle.lead, str)):
            yield f"plants needle {k} with the text {needle.text!r} after {needle.lead!r}; allowed: texts, none empty"
        if not 0 <= needle.depth_percent <= 100:
            yield f"plants needle {k} at depth_percent={needle.depth_percent}; allowed: from 0 to 100"
    for k, question in enumerate(plan.questions):
        for name, texts in (("answers", question.answers), ("distractors", question.distractors)):
            if not (isinstance(texts, tuple | list) and _are_texts(texts)):
                yield f"asks question {k} with {name}={texts!r}; allowed: a tuple of texts, none empty"
        if not question.answers:
            yield f"asks question {k} without answers; allowed: at least one, which the scorer looks for"
        if not set(question.needles) <= set(range(len(plan.needles))):
            yield f"asks question {k} about needles={question.needles!r}; allowed: indexes of its {len(plan.needles)}"
        if not _is_json(question.fields):
            yield f"asks question {k} with fields={question.fields!r}; allowed: a dict of what JSON can hold"


def _are_texts(values: Any) -> bool:
    return all(isinstance(value, str) and value for value in values)


def _is_json(fields: Any) -> bool:
    try:
        json.dumps(fields)
    except (TypeError, ValueError):
        return False
    return isinstance(fields, dict)


def _frame(task: Task, prompt_format: PromptFormat, plan: Haystack) -> _Frame:
    texts = [frame_texts(task, prompt_format, question.fields) for question in plan.questions]
    heads = {head for head, _ in texts}
    if len(heads) != 1:
        raise PlanError(
            f"doc_to_text of task {task.name!r} says something about the question before the context; "
            "the context comes first, so that questions can share it"
        )
    head = np.concatenate((prompt_format.prefix_ids, prompt_format.encode(heads.pop())))
    feet = [encoding.ids for encoding in prompt_format.tokenizer.encode([foot for _, foot in texts])]
    return _Frame(head, [np.concatenate((foot, prompt_format.suffix_ids)) for foot in feet])


def frame_texts(task: Task, prompt_format: PromptFormat, fields: Mapping[str, Any]) -> tuple[str, str]:
    """The task's text before and after the context, answer prefix included, chat template not.

    Raises:
        PlanError: ``doc_to_text`` does not hold the context exactly once.
    """
    doc = {**fields, "context": _CONTEXT}
    with user_code(f"task {task.name!r}: doc_to_text or gen_prefix"):
        text, prefix = task.render(doc), task.answer_prefix(doc)
    parts = text.split(_CONTEXT)
    if len(parts) != 2:
        raise PlanError(f"doc_to_text of task {task.name!r} holds the context {len(parts) - 1} times; allowed: once")
    head, foot = parts
    if prompt_format.style == "chat":
        return head, foot.rstrip()
    # lm-eval's own rule for joining a question and its gen_prefix
    joint = " " if foot and prefix and not (foot[-1].isspace() or prefix[0].isspace()) else ""
    return head, foot + joint + prefix


def _encode_needles(prompt_format: PromptFormat, needles: Sequence[Needle], opens: int | None) -> list[np.ndarray]:
    texts = [needle.text if k == opens else needle.lead + needle.text for k, needle in enumerate(needles)]
    return [encoding.ids for encoding in prompt_format.tokenizer.encode(texts)]


def _refuse_short(task: Task, cell: Cell, index: int, room: int, planted_tokens: int, needles: int) -> None:
    short = planted_tokens - room
    if short > 0:
        around = cell.context_length - room
        raise PlanError(
            f"task {task.name!r} at context_length {cell.context_length}, haystack {index}: {short} tokens short; "
            f"{needles} needles need {planted_tokens} tokens, template and question {around}; "
            f"the minimum is {planted_tokens + around}"
        )


@lru_cache(maxsize=8)
def _filler(text: TextSource, tokenizer: Tokenizer) -> Filler:
    """One `Filler` per source and tokenizer and process, so that text is tokenized once."""
    return Filler(text, tokenizer)


def _excerpt(prompt_format: PromptFormat, context: np.ndarray, needle: Placed) -> str:
    first = max(needle.start - _EXCERPT_TOKENS, 0)
    text = prompt_format.decode(context[first : needle.start + needle.tokens + _EXCERPT_TOKENS])
    return " ".join(text.replace("\ufffd", "").split())
