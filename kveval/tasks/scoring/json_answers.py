"""JSON in an output: found whatever stands around it, checked against its schema, compared with what was asked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kveval.tasks.scoring.text import answer_of

_OPENING = re.compile(r"[{\[]")
_MOST_FAILURES = (
    1000  # each costs time in proportion to the text; an output of nothing but braces must not cost minutes
)


def json_values(text: str) -> list[Any]:
    """Objects and arrays of a text in their order, outermost only; whatever is around or between them is skipped.

    Strict JSON: no comments, single quotes, trailing commas, NaN or duplicate keys.
    """
    decoder = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_unique)
    found, at = [], 0
    failures = 0
    while failures < _MOST_FAILURES and (opening := _OPENING.search(text, at)):
        try:
            value, at = decoder.raw_decode(text, opening.start())
            found.append(value)
        except ValueError:
            at = opening.end()
            failures += 1
        except RecursionError:
            break
    return found


def extracted(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Whether an output's JSON is the asked record or list of records.

    An output's answer is its JSON that fits the schema. Different answers in one output are none: ``score`` and
    ``field_accuracy`` are 0. The order of keys and of records does not matter.

    ``score``
        decides: 1 when every field of every record is right and there is no other record.
    ``field_accuracy``
        share of right fields, the key left out where others exist, over asked and surplus records.
    ``valid``
        1 when the output holds JSON that fits the schema.

    Args:
        doc: ``answers`` (one JSON text), ``schema`` (JSON text), ``key`` (the field that names a record).
        results: one output text.
    """
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(json.loads(doc["schema"]))
    fitting = [value for value in json_values(answer_of(results[0])) if validator.is_valid(value)]
    if not fitting:
        return {"score": 0.0, "field_accuracy": 0.0, "valid": 0.0}
    asked = json.loads(doc["answers"][0])
    records, given = (_by_key(value, doc["key"]) for value in (asked, fitting[0]))
    if any(not same_json(fitting[0], other) for other in fitting[1:]):
        return {"score": 0.0, "field_accuracy": 0.0, "valid": 1.0}
    right = sum(
        same_json(wanted[field], given[key][field])
        for key, wanted in records.items()
        if key in given
        for field in wanted
        if field != doc["key"]
    )
    count = len(fitting[0]) if isinstance(fitting[0], list) else 1
    fields = sum(len(wanted) - 1 for wanted in records.values()) // len(records)
    accuracy = right / (fields * max(len(records), count))
    return {"score": float(accuracy == 1.0), "field_accuracy": accuracy, "valid": 1.0}


def same_json(one: Any, other: Any) -> bool:
    """Equality of JSON values: 1 is 1.0, but neither is true or "1"; key order does not matter."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same_json(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _by_key(value: Any, key: str) -> dict[str, dict[str, Any]]:
    records = value if isinstance(value, list) else [value]
    return {record[key]: record for record in records}


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found
