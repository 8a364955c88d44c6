"""Other accepted values of an argument are right answers too, each a text of its own."""

from __future__ import annotations

import json
from typing import Any

from kveval.tasks.references.calls import MOST_CALLS, right_calls

STRING, NUMBER = {"type": "string"}, {"type": "integer"}


def doc(**parameters: list[Any]) -> dict[str, Any]:
    """A request for one call of f. Its answer has the first value of each argument that must be given."""
    kinds = {name: NUMBER if isinstance(values[0], int) else STRING for name, values in parameters.items()}
    given = {name: values[0] for name, values in parameters.items() if "" not in values}
    declared = {"name": "f", "parameters": {"properties": kinds, "required": list(given)}}
    return {
        "answers": [json.dumps([{"name": "f", "arguments": given}])],
        "expected": json.dumps([{"name": "f", "parameters": parameters}]),
        "functions": json.dumps([declared]),
    }


def arguments(**parameters: list[Any]) -> list[dict[str, Any]]:
    return [calls[0]["arguments"] for calls in right_calls(doc(**parameters))]


def test_every_accepted_value_is_an_answer_and_the_fewest_changes_come_first() -> None:
    assert arguments(unit=["km", "kilometres"], count=[3, 5]) == [
        {"unit": "km", "count": 3},
        {"unit": "kilometres", "count": 3},
        {"unit": "km", "count": 5},
        {"unit": "kilometres", "count": 5},
    ]


def test_an_argument_has_one_value_at_a_time() -> None:
    assert arguments(unit=["m", "metre", "metres"]) == [{"unit": "m"}, {"unit": "metre"}, {"unit": "metres"}]


def test_an_argument_that_may_be_left_out_stays_out() -> None:
    assert arguments(unit=["km"], colour=["red", ""]) == [{"unit": "km"}]


def test_the_number_of_answers_is_bounded() -> None:
    found = arguments(**{name: ["one", "two", "three"] for name in "abcd"})
    assert len(found) == MOST_CALLS == len({json.dumps(one) for one in found})
    assert found[0] == dict.fromkeys("abcd", "one")


def test_what_the_scorer_would_not_take_is_no_answer() -> None:
    assert arguments(count=[3, "three"]) == [{"count": 3}]


def test_a_document_without_accepted_values_has_its_own_answer() -> None:
    calls = [{"name": "f", "arguments": {}}]
    assert right_calls({"answers": [json.dumps(calls)]}) == [calls]
