"""Scores records that an output gives as JSON. Values compare as JSON does, so no text is normalized."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kveval.tasks.scoring.json_answers import json_values, same_json
from kveval.tasks.scoring.reasoning import answer_of


def extracted(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Compares an output's JSON with the asked record or list of records.

    The answer is the JSON that fits the schema. Two different ones in an output score 0. The order of keys and of
    records makes no difference.

    ``score``
        decides: 1 when every field of every record is right and there is no other record.
    ``field_accuracy``
        share of right fields over asked and surplus records, without the field that names a record.
    ``valid``
        1 when the output has JSON that fits the schema.

    Args:
        doc: ``answers`` (one JSON text), ``schema`` (JSON text), ``key`` (the field that names a record).
    """
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(json.loads(doc["schema"]))
    fitting = [value for value in json_values(answer_of(results[0])) if validator.is_valid(value)]
    if not fitting:
        return {"score": 0.0, "field_accuracy": 0.0, "valid": 0.0}
    records, given = (_by_key(value, doc["key"]) for value in (json.loads(doc["answers"][0]), fitting[0]))
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


def _by_key(value: Any, key: str) -> dict[str, dict[str, Any]]:
    records = value if isinstance(value, list) else [value]
    return {record[key]: record for record in records}
