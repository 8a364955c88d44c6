from __future__ import annotations

import pytest

from kveval.tasks.scoring.function_schema import fits_schema, json_schema, tool_function, tool_name

PARAMETERS = {
    "type": "dict",
    "properties": {
        "a": {"type": "float", "description": "x", "default": 1.0},
        "b": {"type": "tuple", "items": {"type": "integer"}},
        "c": {"type": "any"},
        "d": {"type": "HashMap", "properties": {"e": {"type": "String", "enum": ["x"]}}, "required": ["e"]},
        "f": {"type": "ArrayList"},
    },
    "required": ["a", "gone"],
}
FUNCTION = {"name": "geo.area tri", "description": "two\n lines", "parameters": PARAMETERS}


def test_bfcl_types_become_json_schema():
    assert json_schema(PARAMETERS) == {
        "type": "object",
        "properties": {
            "a": {"type": "number", "description": "x", "default": 1.0},
            "b": {"type": "array", "items": {"type": "integer"}},
            "c": {},
            "d": {"type": "object", "properties": {"e": {"type": "string", "enum": ["x"]}}, "required": ["e"]},
            "f": {"type": "array"},
        },
        "required": ["a"],
    }


def test_a_tool_has_a_name_that_chat_endpoints_accept():
    assert tool_function(FUNCTION)["name"] == tool_name("geo.area tri") == "geo_area_tri"
    assert tool_function(FUNCTION)["description"] == "two lines"


@pytest.mark.parametrize(
    ("arguments", "fits"), [({"a": 1, "b": [1]}, True), ({"a": 1, "b": ["x"]}, False), ({"b": [1]}, False), ([], False)]
)
def test_arguments_are_checked_as_they_are_declared(arguments, fits):
    assert fits_schema(arguments, FUNCTION) is fits
