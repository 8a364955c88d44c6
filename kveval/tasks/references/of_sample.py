"""Makes the references of a sample."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Any

from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.references.calls import right_calls
from kveval.tasks.references.form import CALLS, ENTRIES, JSON, ReferenceForm, rendered
from kveval.tasks.references.json_pieces import VALUE, json_pieces
from kveval.tasks.references.reference import FORMAT, NoReference, Piece, Reference, References, joint
from kveval.tasks.sample import Sample
from kveval.tasks.scoring.calls import UnreadableCallsError, json_calls
from kveval.tasks.task import Task
from kveval.tasks.user_code import user_code

MOST_ORDERS = 24
"""The most orders of a list that are forced one by one: those of four entries."""

_LAST_TOKENS = 4
_CALL_IDS = frozenset(("id", "tool_call_id"))
_JSON_START = re.compile(r"[{\[](?=\s*[{\"])")  # not the bracket of [TOOL_CALLS]


def references_of(
    task: Task, sample: Sample, prompt_format: PromptFormat, template: ChatTemplate | None = None
) -> References | NoReference:
    """Returns what to force for a sample, or why there is nothing.

    Args:
        template: writes function calls as the model does, where the sample goes to a chat endpoint with tools.

    Raises:
        ConfigError: the task's templates name a field that the sample's document lacks.
    """
    if sample.reference is not None:
        return References("token_accuracy", (_after_prompt(sample.reference, task, sample, prompt_format),))
    form = task.reference
    if form is None:
        return NoReference("its task says nothing about a reference")
    if form.none is not None or form.unit is None:
        return NoReference(form.none or "its task has no unit")
    doc = sample.doc
    if _has_calls(form) and sample.chat is not None:
        return _calls(sample, template)
    with user_code(f"task {task.name!r}: metadata.reference"):
        alternatives = _alternatives(form, doc)
        contrast = [Reference(tuple(rendered(form.contrast, doc)))] if form.contrast and _contrasts(doc) else []
    if isinstance(alternatives, NoReference):
        return alternatives
    return References(
        form.unit,
        tuple(_after_prompt(reference, task, sample, prompt_format) for reference in alternatives),
        tuple(_after_prompt(reference, task, sample, prompt_format) for reference in contrast),
    )


def _has_calls(form: ReferenceForm) -> bool:
    return any(CALLS in piece for piece in form.text or ())


def _contrasts(doc: Mapping[str, Any]) -> bool:
    return bool(doc["absent"] and doc["distractors"])


def _alternatives(form: ReferenceForm, doc: Mapping[str, Any]) -> list[Reference] | NoReference:
    answers: list[Any] = doc["answers"]
    if _has_calls(form) and not doc["absent"]:
        written = (json.dumps(calls, ensure_ascii=False) for calls in right_calls(doc))
        return [Reference(tuple(_pieces(form, {**doc, "answers": [text]}))) for text in written]
    in_array = form.any_order and form.unit != "entries"
    items = json.loads(answers[0]) if in_array else answers
    if form.any_order and math.factorial(len(items)) > MOST_ORDERS:
        return NoReference(
            f"its {len(items)} answers may come in {math.factorial(len(items)):,} orders, and at most {MOST_ORDERS} "
            "are forced"
        )
    orders = permutations(items) if form.any_order else [tuple(items)]
    docs = [{**doc, "answers": [json.dumps(order)] if in_array else list(order)} for order in orders]
    return [Reference(tuple(_pieces(form, own))) for own in docs]


def _pieces(form: ReferenceForm, doc: Mapping[str, Any]) -> Iterator[Piece]:
    for piece in form.text or ():
        [key] = piece
        if key == ENTRIES:
            yield from _entries(form, piece, doc)
        elif key in (JSON, CALLS):
            [text] = rendered([piece], doc)
            yield from (Piece(text.text, VALUE),) if doc["absent"] else json_pieces(text.text)
        else:
            yield from rendered([piece], doc)


def _entries(form: ReferenceForm, piece: Mapping[str, str], doc: Mapping[str, Any]) -> Iterator[Piece]:
    last = len(doc["answers"])
    for number, answer in enumerate(doc["answers"], 1):
        if number > 1:
            yield Piece(form.joints[number == last])
        [entry] = rendered([{f"entry {number}": piece[ENTRIES]}], {**doc, "entry": answer, "number": number})
        yield entry


def _calls(sample: Sample, template: ChatTemplate | None) -> References | NoReference:
    """Writes the right calls as the chat template does."""
    if sample.doc["absent"]:
        return NoReference("no function fits, and the prompt of a chat endpoint gives no words to say so")
    found = [_written(calls, template) if template else None for calls in right_calls(sample.doc)]
    if found[0] is None:
        return NoReference("the chat template does not show how the model writes function calls in JSON")
    return References("probability", tuple(filter(None, found)))


def _written(calls: list[dict[str, Any]], template: ChatTemplate) -> Reference | None:
    written = template.written_calls(calls)
    start = _JSON_START.search(written or "")
    if written is None or start is None or _calls_in(written) != calls:
        return None
    end = max(written.rfind("}"), written.rfind("]")) + 1
    opening, made, rest = written[: start.start()], written[start.start() : end], written[end:]
    pieces = (Piece(opening, FORMAT), *json_pieces(made, _CALL_IDS), Piece(rest))
    return Reference(tuple(piece for piece in pieces if piece.text), has_special=True)


def _calls_in(written: str) -> list[dict[str, Any]]:
    try:
        return json_calls(written)
    except UnreadableCallsError:
        return []


def _after_prompt(reference: Reference, task: Task, sample: Sample, prompt_format: PromptFormat) -> Reference:
    """Leaves out of the lead what a completion prompt ends with, and separates the two by a space where none is."""
    pieces = list(reference.pieces)
    if prompt_format.style != "completion" or sample.chat is not None:
        return Reference((Piece(prompt_format.answer_joint), *pieces)) if prompt_format.answer_joint else reference
    prefix = task.answer_prefix(sample.doc)
    begun = _overlap(prefix, pieces[0].text) if pieces[0].part is None else 0
    if begun:
        pieces[0] = Piece(pieces[0].text[begun:])
    else:
        before = prompt_format.decode(sample.prompt.token_ids()[-_LAST_TOKENS:])
        if joint(before, reference.text):
            pieces.insert(0, Piece(joint(before, reference.text)))
    return Reference(tuple(pieces))


def _overlap(before: str, text: str) -> int:
    """Counts the characters that the first text ends with and the second begins with."""
    return next((size for size in range(min(len(before), len(text)), 0, -1) if before.endswith(text[:size])), 0)
