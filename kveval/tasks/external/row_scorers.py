"""Scorers that a row of the user's own prompts may name. Adding one is one entry in `SCORERS`.

Each says whether an answer, thinking left out, gives one of the row's references. An answer that a scorer cannot read
has ``valid`` 0 beside its score of 0, and the outcome ``invalid_format``.
"""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import regex

from kveval.tasks.scoring.call_match import same_in_any_order
from kveval.tasks.scoring.calls import UnreadableCallsError, calls_in, is_statement
from kveval.tasks.scoring.echo import question_in, without_echo
from kveval.tasks.scoring.json_answers import json_values, loads, same_json
from kveval.tasks.scoring.reasoning import answer_of
from kveval.tasks.scoring.text import PROSE_ANSWERS
from kveval.tasks.scoring.wording.commitment import gives

NORMALIZER = PROSE_ANSWERS
LONGEST_PATTERN = 1000
PATTERN_SECONDS = 1.0
"""How long a pattern may search one output. Nested repeats can take longer than the universe exists."""

_FENCED = re.compile(r"```\w*\s(.*?)```", re.DOTALL)

Metrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class RowScorer:
    """One way to score rows.

    Attributes:
        score: returns the metrics of an answer, given the row's references.
        reference: returns an answer of a row as the text that `score` compares with. Raises ValueError, saying what to
            use, for an answer that no model could ever give. None where a row has no answer.
        takes_null: whether null is an answer.
        needs_tools: whether a row must have tools.
        counts_echoes: whether an output that repeats the question may be right.
    """

    score: Callable[[str, Sequence[str]], Metrics]
    reference: Callable[[Any], str] | None
    takes_null: bool = False
    needs_tools: bool = False
    counts_echoes: bool = True


def score_row(doc: Mapping[str, Any], output: str) -> Metrics:
    """Returns the metrics of an output; none when the row is not scored.

    Args:
        doc: ``scorer``, a key of `SCORERS`, and ``answers``, made by its `RowScorer.reference`; ``question``, the end
            of the prompt, if it is known.
    """
    scorer, answer = SCORERS[doc["scorer"]], answer_of(output)
    if not scorer.counts_echoes:
        answer = without_echo(answer, prompt_end(doc), doc["answers"])
    return scorer.score(answer, doc["answers"])


def prompt_end(doc: Mapping[str, Any]) -> str:
    """Returns the end of a row's prompt, as far as its sample keeps it."""
    return str(doc.get("question", "")).removeprefix(f"{doc.get('source')}: ")


def echo_is_right(doc: Mapping[str, Any]) -> bool:
    """Returns whether the question of a row names its answer, so that repeating the question could be right."""
    question, scorer = question_in(prompt_end(doc)), SCORERS[doc["scorer"]]
    if not scorer.counts_echoes:
        return any(NORMALIZER.names(question, reference) for reference in doc["answers"])
    return scorer.score(question, doc["answers"]).get("score") == 1.0


def contains_answer(answer: str, references: Sequence[str]) -> Metrics:
    """Looks for whole words; see `NORMALIZER`. The choice "A" is told from the article.

    What the answer denies ("not Rollo"), or offers as one of several ("Rollo or Harald"), does not count.
    """
    others = " ".join(references)
    return {"score": float(any(gives(answer, reference, NORMALIZER, others) for reference in references))}


def is_answer(answer: str, references: Sequence[str]) -> Metrics:
    """Compares every character, but for white space around the text, line ends, and how Unicode composes characters."""
    return {"score": float(_composed(answer) in map(_composed, references))}


def is_json(answer: str, references: Sequence[str]) -> Metrics:
    """Compares the JSON that an answer is, or else the one value in it: an object, an array, or what a fence holds.

    The order of keys makes no difference and 1 is 1.0, but 1, "1" and true differ. Two different values in one answer
    score 0. A value of another kind does not count: a citation like [1] beside an object.
    """
    values = _json_in(answer)
    if not values:
        return {"score": 0.0, "valid": 0.0}
    try:
        wanted = [json.loads(reference) for reference in references]
        kinds = {_kind(value) for value in wanted}
        values = [value for value in values if _kind(value) in kinds] or values
        one = all(same_json(values[0], other) for other in values[1:])
        right = one and any(same_json(values[0], value) for value in wanted)
    except RecursionError:  # nested too deep to be compared
        return {"score": 0.0, "valid": 0.0}
    return {"score": float(right), "valid": 1.0}


def matches(answer: str, references: Sequence[str]) -> Metrics:
    """Searches for a pattern, in the syntax of Python's ``re``, anywhere in the answer."""
    try:
        found = any(regex.search(pattern, answer, timeout=PATTERN_SECONDS) for pattern in references)
    except (TimeoutError, RecursionError):
        return {"score": 0.0, "valid": 0.0}
    return {"score": float(found), "valid": 1.0}


def makes_calls(answer: str, references: Sequence[str]) -> Metrics:
    """Compares calls: the asked ones and no other, in any order, with exactly the asked arguments, as JSON compares."""
    try:
        calls = calls_in(answer, _texts_of(references))
        silent = not calls and not is_statement(answer)
        right = not silent and any(same_in_any_order(calls, json.loads(each), same_json) for each in references)
    except (UnreadableCallsError, RecursionError):
        return {"score": 0.0, "valid": 0.0, "abstained": 0.0}
    return {"score": float(right), "valid": 1.0, "abstained": float(not calls and not silent)}


def _texts_of(references: Sequence[str]) -> dict[str, dict[str, str]]:
    """Returns which arguments are text, by function. Some models write every value without its type."""
    kinds: dict[str, dict[str, str]] = {}
    for call in (call for reference in references for call in json.loads(reference)):
        texts = {name: "string" for name, value in call["arguments"].items() if isinstance(value, str)}
        kinds.setdefault(call["name"], {}).update(texts)
    return kinds


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n")).strip()


def _json_in(answer: str) -> list[Any]:
    with contextlib.suppress(ValueError):
        return [loads(answer)]
    fenced = []
    for block in _FENCED.findall(answer):
        with contextlib.suppress(ValueError):
            fenced.append(loads(block))
    return json_values(answer) + [value for value in fenced if _kind(value) == "scalar"]


def _kind(value: Any) -> str:
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "scalar"


def _text_or_number(answer: Any) -> str:
    if not isinstance(answer, str | int | float) or isinstance(answer, bool):
        raise ValueError("use: text or a number")
    return str(answer)


def _text(answer: Any) -> str:
    text = _text_or_number(answer)
    if not text.strip():
        raise ValueError("use: text")
    return text


def _words(answer: Any) -> str:
    text = _text(answer)
    if not NORMALIZER.words(text):
        raise ValueError("use: text with a letter or digit in it")
    return text


def _pattern(answer: Any) -> str:
    pattern = _text_or_number(answer)
    if not 1 <= len(pattern) <= LONGEST_PATTERN:
        raise ValueError(f"use: a regular expression of 1 to {LONGEST_PATTERN} characters")
    try:
        regex.compile(pattern)
    except (regex.error, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


def _json(answer: Any) -> str:
    return json.dumps(_json_value(answer), sort_keys=True)


def _json_value(answer: Any) -> Any:
    try:
        return loads(answer) if isinstance(answer, str) else answer
    except ValueError as error:
        raise ValueError("use: a JSON value, or a string that holds one") from error


def _calls(answer: Any) -> str:
    value = _json_value(answer)
    calls = value if isinstance(value, list) else [value]
    for call in calls:
        if not (
            isinstance(call, dict) and call.keys() == {"name", "arguments"} and isinstance(call["arguments"], dict)
        ):
            raise ValueError('use: {"name": ..., "arguments": {...}}, or a list of such; [] where no call is right')
    return json.dumps(calls, sort_keys=True)


SCORERS = {
    "contains": RowScorer(contains_answer, _words, counts_echoes=False),
    "exact": RowScorer(is_answer, _text),
    "json": RowScorer(is_json, _json, takes_null=True),
    "regex": RowScorer(matches, _pattern),
    "tool_call": RowScorer(makes_calls, _calls, needs_tools=True),
    "none": RowScorer(lambda answer, references: {}, reference=None),  # noqa: ARG005 (nothing is scored)
}
