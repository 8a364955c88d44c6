"""Turns BFCL's function declarations into JSON schemas, and checks calls against them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# bfcl_eval/constants/type_mappings.py, GORILLA_TO_OPENAPI; its "any" has no type here.
_TYPES = {
    "integer": "integer", "byte": "integer", "short": "integer", "long": "integer", "bigint": "integer",
    "number": "number", "float": "number", "double": "number",
    "string": "string", "char": "string",
    "boolean": "boolean", "bool": "boolean",
    "array": "array", "list": "array", "tuple": "array", "arraylist": "array", "queue": "array", "stack": "array",
    "dict": "object", "object": "object", "hashmap": "object", "hashtable": "object",
}  # fmt: skip
_KEPT = ("description", "enum", "default")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(declared: str) -> str:
    """Returns a function's name that chat endpoints accept: ``geometry.area`` becomes ``geometry_area`` as in BFCL."""
    return _NOT_IN_NAMES.sub("_", declared)


def tool_function(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the ``function`` of a tool: name, description and parameters as JSON schema, in this order."""
    return {
        "name": tool_name(declared["name"]),
        "description": " ".join(declared["description"].split()),
        "parameters": json_schema({**declared["parameters"], "type": "dict"}),
    }


def json_schema(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a BFCL type declaration as JSON schema. A type that BFCL does not check accepts any value."""
    schema: dict[str, Any] = {}
    kind = _TYPES.get(str(declared.get("type", "")).lower())
    if kind:
        schema["type"] = kind
    schema |= {key: declared[key] for key in _KEPT if key in declared}
    if kind == "array" and isinstance(declared.get("items"), Mapping):
        schema["items"] = json_schema(declared["items"])
    if kind == "object" and isinstance(declared.get("properties"), Mapping):
        properties = declared["properties"]
        schema["properties"] = {
            name: json_schema(value) for name, value in properties.items() if isinstance(value, Mapping)
        }
        required = [name for name in declared.get("required") or () if name in schema["properties"]]
        if required:
            schema["required"] = required
    return schema


def fits_schema(arguments: Any, declared: Mapping[str, Any]) -> bool:
    """Returns whether arguments are an object with declared parameters of the right types, and every required one.

    Items of an array and parameters of an object are checked as far as they are declared.
    """
    from jsonschema import Draft202012Validator

    schema = json_schema({**declared["parameters"], "type": "dict"}) | {"additionalProperties": False}
    return bool(Draft202012Validator(schema).is_valid(arguments))
