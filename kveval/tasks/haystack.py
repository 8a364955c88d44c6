"""Token-exact assembly of haystacks: filler, needles at asked depths, and many questions about one context."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from kveval.errors import PlanError
from kveval.tasks.corpora import source
from kveval.tasks.filler import Cut, Filler, Run, Source
from kveval.tasks.prompt import PromptFormat
from kveval.tasks.seeding import seeded
from kveval.tasks.task import Cell, Prompt, Sample, Task
from kveval.tasks.tokenizer import Tokenizer

SLACK_TOKENS = 8
"""A prompt has at most this many tokens less than its context_length, and never more than context_length."""

DEPTH_TOLERANCE_PERCENT = 1.0
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
        answers: the references, all of which a complete answer holds.
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
        least_cut: where needles may be put at worst: between words, sentences or whole pieces.
    """

    needles: Sequence[Needle]
    questions: Sequence[Question]
    forbidden: frozenset[str] = frozenset()
    source: Source | None = None
    least_cut: Cut = Cut.WORD


class Builder(Protocol):
    """A task's one idea: what to plant and what to ask."""

    def haystack(self, numbers: range, phase: float, rng: random.Random) -> Haystack:
        """Plans one haystack.

        Args:
            numbers: the samples' numbers in their cell; one question each.
            phase: in [0, 1), stratified over the haystacks of a cell. Needle k of K at depth 100 * (k + phase) / K
                covers the context evenly in every haystack and in different places in each.
            rng: seeded by (task, context_length, haystack index, seed).
        """
        ...


def depths_percent(needles: int, phase: float) -> list[float]:
    """Evenly spaced depths in [0, 100), shifted by phase * spacing."""
    return [100 * (k + phase) / needles for k in range(needles)]


def haystack_numbers(cell: Cell) -> list[range]:
    """Sample numbers of each haystack of a cell: as few haystacks as the cell allows, of equal size within one."""
    count = -(-cell.samples // cell.questions_per_haystack)
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
    numbers = haystack_numbers(cell)
    rng = seeded(task.name, cell.context_length, "phases", cell.seed)
    strata = list(range(len(numbers)))
    rng.shuffle(strata)
    phases = [(stratum + rng.random()) / len(numbers) for stratum in strata]
    for index, phase in enumerate(phases):
        yield _assemble(task, cell, prompt_format, index, numbers[index], phase)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Token ids around the context: one head for all questions, one foot for each."""

    head: np.ndarray
    feet: list[np.ndarray]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A needle in its place: `start` tokens of context before it, `tokens` long."""

    start: int
    tokens: int


def _assemble(
    task: Task,
    cell: Cell,
    prompt_format: PromptFormat,
    index: int,
    numbers: range,
    phase: float,
) -> list[Sample]:
    rng = seeded(task.name, cell.context_length, index, cell.seed)
    plan: Haystack = task.builder.haystack(numbers, phase, rng)
    frame = _frame(task, prompt_format, plan)
    planted = [encoding.ids for encoding in prompt_format.tokenizer.encode([n.lead + n.text for n in plan.needles])]
    room = [cell.context_length - len(frame.head) - len(foot) for foot in frame.feet]
    opener = _opener(plan.needles, planted, min(room))
    if opener is not None:
        planted[opener] = prompt_format.encode(plan.needles[opener].text)
    planted_tokens = sum(len(ids) for ids in planted)
    _refuse_short(task, cell, index, room, planted_tokens, len(plan.needles))

    text = plan.source or source(cell.haystack_style)
    filler = _filler(text, prompt_format.tokenizer)
    forbidden = {string.lower() for string in plan.forbidden}
    run = filler.run(rng, max(room) - planted_tokens + 1, forbidden, opens_context=opener is None)
    ends = [_end(run, tokens - planted_tokens) for tokens in room]
    positions = _positions(plan, planted, run, ends, opener)
    context, placed = _interleave(run, planted, positions, min(ends))

    shared = np.concatenate((frame.head, context))
    stop = task.stop if prompt_format.style == "completion" else ()
    identity = [task.name, task.version, cell.context_length, task.max_output_tokens, list(stop)]
    fixed = hashlib.sha256(json.dumps(identity).encode())
    fixed.update(shared.astype("<i4", copy=False).tobytes())
    samples = []
    for question, foot, end in zip(plan.questions, frame.feet, ends, strict=True):
        tail = np.concatenate((run.ids[min(ends) : end], foot))
        digest = fixed.copy()
        digest.update(tail.astype("<i4", copy=False).tobytes())
        digest.update(json.dumps([len(shared) + len(tail), list(question.answers)]).encode())
        own = [placed[needle] for needle in question.needles]
        depths = [_depth_percent(needle, end + planted_tokens) for needle in own]
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
    parts = task.render(doc).split(_CONTEXT)
    if len(parts) != 2:
        raise PlanError(f"doc_to_text of task {task.name!r} holds the context {len(parts) - 1} times; allowed: once")
    head, foot = parts
    if prompt_format.style == "chat":
        return head, foot.rstrip()
    prefix = task.answer_prefix(doc)
    # lm-eval's own rule for joining a question and its gen_prefix
    joint = " " if foot and prefix and not (foot[-1].isspace() or prefix[0].isspace()) else ""
    return head, foot + joint + prefix


def _refuse_short(task: Task, cell: Cell, index: int, room: list[int], planted_tokens: int, needles: int) -> None:
    short = planted_tokens - min(room)
    if short > 0:
        around = cell.context_length - min(room)
        raise PlanError(
            f"task {task.name!r} at context_length {cell.context_length}, haystack {index}: {short} tokens short; "
            f"{needles} needles need {planted_tokens} tokens, template and question {around}; "
            f"the minimum is {planted_tokens + around}"
        )


@lru_cache(maxsize=8)
def _filler(text: Source, tokenizer: Tokenizer) -> Filler:
    """One `Filler` per source and tokenizer and process, so that text is tokenized once."""
    return Filler(text, tokenizer)


def _opener(needles: Sequence[Needle], planted: list[np.ndarray], room: int) -> int | None:
    """The needle that stands at the very start of the context, before any filler."""
    if not needles:
        return None
    first = min(range(len(needles)), key=lambda k: needles[k].depth_percent)
    asked_tokens = needles[first].depth_percent / 100 * (room - len(planted[first]))
    return first if asked_tokens < min(2.0, DEPTH_TOLERANCE_PERCENT / 200 * room) else None


def _end(run: Run, fill_tokens: int) -> int:
    """Filler tokens used when there is room for `fill_tokens`: up to 8 less, to end a sentence or a word."""
    low = max(fill_tokens - SLACK_TOKENS, 0)
    window = run.cuts[low : fill_tokens + 1]
    best = min(int(window.max()), Cut.SENTENCE)
    return low + int(np.flatnonzero(window >= best)[-1])


def _positions(
    plan: Haystack, planted: list[np.ndarray], run: Run, ends: list[int], opener: int | None
) -> list[tuple[int, int]]:
    """(filler tokens before it, needle index), in order of place."""
    planted_tokens = sum(len(ids) for ids in planted)
    last = min(ends)
    asked_by = {needle: end for question, end in zip(plan.questions, ends, strict=True) for needle in question.needles}
    positions: list[tuple[int, int]] = []
    low, before = (0 if opener is not None else 1), 0
    for k in sorted(range(len(planted)), key=lambda k: (k != opener, plan.needles[k].depth_percent)):
        span = asked_by.get(k, last) + planted_tokens - len(planted[k])
        target = plan.needles[k].depth_percent / 100 * span - before
        tolerance = DEPTH_TOLERANCE_PERCENT / 100 * span
        at = 0 if k == opener else _cut_near(run.cuts[: last + 1], target, tolerance, min(low, last), plan.least_cut)
        positions.append((at, k))
        low, before = max(at, low), before + len(planted[k])
    return positions


def _cut_near(cuts: np.ndarray, target: float, tolerance: float, low: int, least: Cut) -> int:
    """The place nearest `target` and not below `low`: a sentence end within the tolerance, else the least cut."""
    first, last = max(low, int(np.ceil(target - tolerance))), min(len(cuts) - 1, int(target + tolerance))
    for kind in (Cut.SENTENCE, least):
        places = np.flatnonzero(cuts[first : last + 1] >= max(kind, least)) + first
        if len(places):
            return int(places[np.argmin(np.abs(places - target))])
    places = np.flatnonzero(cuts[low:] >= least) + low
    return int(places[np.argmin(np.abs(places - target))]) if len(places) else len(cuts) - 1


def _interleave(
    run: Run, planted: list[np.ndarray], positions: list[tuple[int, int]], end: int
) -> tuple[np.ndarray, dict[int, _Placed]]:
    parts: list[np.ndarray] = []
    placed: dict[int, _Placed] = {}
    used, before = 0, 0
    for at, k in positions:
        parts += [run.ids[used:at], planted[k]]
        placed[k] = _Placed(at + before, len(planted[k]))
        used, before = at, before + len(planted[k])
    return np.concatenate([*parts, run.ids[used:end]]), placed


def _depth_percent(needle: _Placed, context_tokens: int) -> float:
    return round(100 * needle.start / max(context_tokens - needle.tokens, 1), 3)


def _excerpt(prompt_format: PromptFormat, context: np.ndarray, needle: _Placed) -> str:
    first = max(needle.start - _EXCERPT_TOKENS, 0)
    text = prompt_format.decode(context[first : needle.start + needle.tokens + _EXCERPT_TOKENS])
    return " ".join(text.replace("\ufffd", "").split())
