"""Scores the function calls of an output. Arguments compare by BFCL's rule, so no text is normalized."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kveval.tasks.scoring.call_match import fits_schema, same_calls
from kveval.tasks.scoring.calls import UnreadableCallsError, calls_in, is_statement
from kveval.tasks.scoring.reasoning import answer_of


def called(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Compares the calls of an output with the expected ones.

    ``score``
        decides: 1 when the output makes exactly the expected calls, by the rule of `call_match`. Where no function
        fits, 1 when it says something and calls nothing.
    ``names``
        1 when it calls the right functions as often as expected, whatever the arguments.
    ``valid``
        0 when a call cannot be read, or its arguments break the schema of the expected function it calls.
    ``abstained``
        1 when the output says something and calls nothing. Noise says nothing.

    Args:
        doc: ``expected`` (JSON text of a list, in the form of `call_match`), ``functions`` (JSON text of
            BFCL's declarations of the expected functions) and ``absent``.
    """
    text = answer_of(results[0])
    expected = json.loads(doc["expected"])
    functions = {function["name"]: function for function in json.loads(doc["functions"])}
    kinds = {name: _kinds(function) for name, function in functions.items()}
    try:
        calls = calls_in(text, kinds)
    except UnreadableCallsError:
        return {"score": 0.0, "names": 0.0, "valid": 0.0, "abstained": 0.0}
    # In a conversation the question is only the name of a request, which no answer needs to repeat.
    about = doc.get("question", "") if doc.get("catalogue") is None else ""
    silent = not calls and not is_statement(text, about)
    right = not silent and same_calls(calls, expected, functions)
    valid = all(fits_schema(call["arguments"], functions[call["name"]]) for call in calls if call["name"] in functions)
    names = sorted(call["name"] for call in calls) == sorted(call["name"] for call in expected)
    return {
        "score": float(right),
        "names": float(names and not silent),
        "valid": float(valid),
        "abstained": float(not calls and not silent),
    }


def _kinds(function: Mapping[str, Any]) -> dict[str, str]:
    properties = function["parameters"]["properties"]
    return {name: str(declared.get("type", "")) for name, declared in properties.items()}
