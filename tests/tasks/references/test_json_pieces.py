from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kveval.tasks.references.json_pieces import json_pieces
from kveval.tasks.references.reference import FORMAT

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
OBJECTS = st.dictionaries(st.text(), SCALARS | st.lists(SCALARS) | st.dictionaries(st.text(), SCALARS), max_size=4)


def values(text):
    return [piece.text for piece in json_pieces(text) if piece.part == "value"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"town": "Lund", "quantity": 12, "paid": true}', ['"Lund",', "12,", "true}"]),
        ('[{"a": -1.5e3}, {"a": null}]', ["-1.5e3}", "null}"]),
        ('{"a": "x: {1}, \\"y\\""}', ['"x: {1}, \\"y\\""}']),
        (
            '{"name": "f", "arguments": {"name": "g", "l": [1, 2]}}',
            ['"f",', '"name":', '"g",', '"l":', "1,", "2]"],
        ),
        ('{"name": "f", "arguments": {}}', ['"f",']),
        ("[]", []),
    ],
)
def test_values_are_told_from_format(text, expected):
    assert values(text) == expected


@given(record=OBJECTS, indent=st.none() | st.just(2), ascii_only=st.booleans())
def test_pieces_are_the_text_and_every_value_is_in_one(record, indent, ascii_only):
    text = json.dumps(record, indent=indent, ensure_ascii=ascii_only)
    pieces = json_pieces(text)
    assert "".join(piece.text for piece in pieces) == text
    assert {piece.part for piece in pieces} <= {"value", FORMAT}
    found = values(text)
    for value in record.values():
        if not isinstance(value, list | dict):
            assert any(each.startswith(json.dumps(value, ensure_ascii=ascii_only)) for each in found)
