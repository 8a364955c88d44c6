from __future__ import annotations

from kveval.tasks.scoring.function_schema import fits_schema, json_schema, tool_function, tool_name


def test_bfcl_types_become_json_schema():
    declared = {
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
    assert json_schema(declared) == {
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
    function = {"name": "geo.area tri", "description": "two\n lines", "parameters": declared}
    assert tool_function(function)["name"] == tool_name("geo.area tri") == "geo_area_tri"
    assert tool_function(function)["description"] == "two lines"
    assert fits_schema({"a": 1, "b": [1]}, function)
    assert not fits_schema({"a": 1, "b": ["x"]}, function)
    assert not fits_schema([], function)
