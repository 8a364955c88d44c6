"""Scores answers about source code. Upper and lower case matter; wording and markup do not.

Metrics are in [0, 1], higher is better; ``score`` decides. ``valid`` is 0 where the output is not code.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kveval.tasks.families.code.answers import LONGEST_SIGNATURE_CHARACTERS, canonical, program_of, signature_in
from kveval.tasks.scoring import sandbox
from kveval.tasks.scoring.abstention import disowns
from kveval.tasks.scoring.numbers import LONG_NUMBER_DIGITS
from kveval.tasks.scoring.reasoning import answer_of
from kveval.tasks.scoring.text import CODE
from kveval.tasks.scoring.wording.alternatives import is_one_of_several
from kveval.tasks.scoring.wording.commitment import gives
from kveval.tasks.scoring.wording.denial import without_denied

NORMALIZER = CODE

_PATH = re.compile(r"(?<![\w./-])[\w./-]*/[\w./-]+|\b\w+\.py\b")
_QUALIFIED = re.compile(r"\b\w+(?:(?:\.|::|#)\w+)+")
_SEPARATOR = re.compile(r"(\.|::|#)")
_UNDERSCORE = re.compile(r"[^\W_]_")
# function_name: merge_lantern
_LABEL = re.compile(
    r"\b(?:(?:the|function|func|fn|method|helper|class|full|qualified|target|answer|result|output|name|id|identifier|of)_?)+"
    r"[\"'`*]*\s*[:=](?!=)",
    re.IGNORECASE,
)
_JOINED = re.compile(r"(?<!\w)\w++(?:-\w++)++")
_HAS_CONTENT = re.compile(r"[^\w\s]")
_LONG_NUMBER = re.compile(rf"-?\d{{{LONG_NUMBER_DIGITS},}}")
_ARGUMENTS = re.compile(r"(?<=\w)\([^()]*\)")


def value_named(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Returns 1 when the answer gives the asked name, number or string, and no other planted one.

    Quotes, ``@`` and module prefixes make no difference. Hyphens and points are content: `amber-falcon` is named by
    neither "amber falcon" nor `silver-amber-falcon`. A second number of five digits or more makes the answer a guess.
    """
    answer, value = answer_of(results[0]), doc["answers"][0]
    question = str(doc.get("question", ""))
    right = (
        gives(answer, value, NORMALIZER, question)
        and _stands_alone(without_denied(answer, value), value)
        and not disowns(answer, question)
        and not _names_any(answer, doc["distractors"])
        and not (value.isdecimal() and _other_numbers(answer, value, question))
    )
    return {"score": float(right)}


def function_named(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Returns 1 when the first function the answer names is the asked one, and it names no other planted one.

    A word with an underscore names a function, unless it is an argument, a file, a module, a class, a label such as
    ``function_name:`` or a word of the question.
    """
    answer, wanted = answer_of(results[0]), doc["answers"][0]
    claimed = without_denied(_LABEL.sub(" ", answer), wanted)
    bare = _QUALIFIED.sub(_without_prefix, _ARGUMENTS.sub("", _PATH.sub("", NORMALIZER.plain(claimed))))
    known = set(NORMALIZER.words(doc["question"]))
    names = (word for word in NORMALIZER.words(_JOINED.sub(" ", bare)) if "_" in word.strip("_") and word.islower())
    first = next((name for name in names if name not in known), None)
    right = (
        first == wanted
        and not is_one_of_several(claimed, wanted, NORMALIZER, doc["question"])
        and not disowns(answer, doc["question"])
        and not _names_any(answer, doc["distractors"])
    )
    return {"score": float(right)}


def line_completed(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Compares a completed signature with the reference.

    ``score``
        1 when the parameters, their order and their default values are right. White space, the kind of quotes, a
        trailing comma, a repeated beginning of the line and everything after the signature make no difference.
    ``edit_similarity``
        `difflib`'s ratio of the two without white space.
    """
    written = signature_in(answer_of(results[0]), doc["answer_lead"])
    wanted = signature_in(doc["answers"][0], doc["answer_lead"])
    parsed = canonical(written)
    similarity = difflib.SequenceMatcher(None, _dense(written), _dense(wanted), autojunk=False).ratio()
    return {
        "score": float(parsed is not None and parsed == canonical(wanted)),
        "edit_similarity": similarity,
        "valid": float(parsed is not None),
    }


def program_passes(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Runs the written function in the sandbox, and compares what it returns with each test.

    ``score``
        1 when every test passes.
    ``tests_passed``
        share of the tests that pass.
    ``valid``
        0 when the output has no function that Python can read.
    """
    tests = json.loads(doc["tests"])
    source = program_of(results[0], "solve", doc["answer_lead"])
    if source is None:
        return {"score": 0.0, "tests_passed": 0.0, "valid": 0.0}
    program = sandbox.Program(source, "solve", {doc["module"]: doc["helper"]})
    returned = sandbox.call(program, [[test["values"]] for test in tests])
    passed = [_same(result, test["returns"]) for result, test in zip(returned, tests, strict=True)]
    unreadable = any((result.error or "").startswith(("SyntaxError", "IndentationError")) for result in returned)
    return {
        "score": float(all(passed)),
        "tests_passed": sum(passed) / len(passed),
        "valid": float(not unreadable),
    }


def _without_prefix(qualified: re.Match[str]) -> str:
    """Returns a qualified name from its last part with an underscore on: self.store.merge_lantern is merge_lantern."""
    parts = _SEPARATOR.split(qualified[0])
    last = max((i for i, part in enumerate(parts) if _UNDERSCORE.search(part)), default=0)
    return "".join(parts[last:])


def _names_any(answer: str, values: Sequence[str]) -> bool:
    return any(NORMALIZER.names(answer, value) for value in values)


def _stands_alone(answer: str, value: str) -> bool:
    """Returns whether an answer has a value as it is written, and not as a part of `silver-value` or `value.other`."""
    if value.isdecimal():
        return True
    before = r"(?<![\w./-])" if _HAS_CONTENT.search(value) else r"(?<!\w)(?<!\w-)"
    return bool(re.search(rf"{before}{re.escape(value)}(?![\w-])(?!\.\w)", NORMALIZER.plain(answer)))


def _other_numbers(answer: str, value: str, question: str) -> set[str]:
    known = {value, *NORMALIZER.words(question)}
    return {word for word in NORMALIZER.words(answer) if _LONG_NUMBER.fullmatch(word)} - known


def _dense(text: str) -> str:
    return "".join(text[:LONGEST_SIGNATURE_CHARACTERS].split())


def _same(result: sandbox.Returned, expected: list[int]) -> bool:
    value = result.value
    return isinstance(value, list) and all(type(item) is int for item in value) and value == expected
