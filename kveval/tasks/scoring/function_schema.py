"""BFCL's function declarations as JSON schemas, and calls checked against them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# bfcl_eval/constants/type_mappings.py, GORILLA_TO_OPENAPI; what it calls "any" is left open here.
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
    """A function's name as chat endpoints allow it: ``geometry.area`` becomes ``geometry_area``, as in BFCL."""
    return _NOT_IN_NAMES.sub("_", declared)


def tool_function(declared: Mapping[str, Any]) -> dict[str, Any]:
    """The ``function`` of a tool: name, description and parameters as JSON schema, in this order."""
    return {
        "name": tool_name(declared["name"]),
        "description": " ".join(declared["description"].split()),
        "parameters": json_schema({**declared["parameters"], "type": "dict"}),
    }


def json_schema(declared: Mapping[str, Any]) -> dict[str, Any]:
    """A BFCL type declaration as JSON schema. Types that BFCL does not check are left open."""
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
    """Whether arguments are an object of declared parameters, each of its type, and none that is required missing.

    A tuple's or array's items and an object's own parameters are checked as far as they are declared.
    """
    from jsonschema import Draft202012Validator

    schema = json_schema({**declared["parameters"], "type": "dict"}) | {"additionalProperties": False}
    return bool(Draft202012Validator(schema).is_valid(arguments))
