"""Compares calls with the expected ones by BFCL's rule, and with BFCL's declarations as JSON schemas.

The rule is that of bfcl_eval, eval_checker/ast_eval/ast_checker.py, for Python.

A call is right when its name is right, it has every required parameter, every parameter it has is expected, of the
right type and one of the allowed values, and every parameter it leaves out may be left out. Strings compare in lower
case without spaces and ``,./-_*^``. Several calls may come in any order.

An expected call is ``{"name": ..., "parameters": {parameter: [allowed value, ...]}}``; an allowed value of ``""`` means
that the parameter may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_PYTHON = {
    "string": str, "any": str, "integer": int, "float": float, "boolean": bool,
    "array": list, "tuple": list, "dict": dict,
}  # fmt: skip
_DROPPED = re.compile(r"[ ,./\-_*^]")

Call = Mapping[str, Any]
"""``{"name": text, "arguments": object}``."""


def same_calls(calls: Sequence[Call], expected: Sequence[Mapping[str, Any]], functions: Mapping[str, Any]) -> bool:
    """Returns whether every expected call was made and no other, in any order. `functions` are declarations by name."""
    return same_in_any_order(calls, expected, lambda call, one: same_call(call, one, functions[one["name"]]))


def same_in_any_order(
    calls: Sequence[Call], expected: Sequence[Mapping[str, Any]], same: Callable[[Call, Mapping[str, Any]], bool]
) -> bool:
    """Returns whether calls and expected calls can be paired so that both of each pair are the same."""
    if len(calls) != len(expected):
        return False
    fits = [[same(call, one) for call in calls] for one in expected]
    if len(calls) <= 1:
        return all(row[0] for row in fits)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    return bool((maximum_bipartite_matching(csr_array(fits)) >= 0).all())


def same_call(call: Call, expected: Mapping[str, Any], function: Mapping[str, Any]) -> bool:
    """Returns whether a call is the expected one, by the rule of this module."""
    given, allowed = call["arguments"], expected["parameters"]
    declared = function["parameters"]["properties"]
    if call["name"] != expected["name"] or not isinstance(given, Mapping):
        return False
    if any(name not in given for name in function["parameters"].get("required") or ()):
        return False
    if any(name not in declared or name not in allowed for name in given):
        return False
    if any(name not in given and "" not in values for name, values in allowed.items()):
        return False
    return all(_allowed(value, allowed[name], declared[name]) for name, value in given.items())


def _allowed(value: Any, allowed: Sequence[Any], declared: Mapping[str, Any]) -> bool:
    kind = declared["type"]
    wanted = _PYTHON[kind]
    items = declared.get("items") if kind in ("array", "tuple") else None
    nested = _PYTHON[items["type"]] if items else None
    if kind == "float" and type(value) is int:
        value = float(value)
    fits, is_variable = _has_type(value, allowed, wanted, nested)
    if not fits:
        return False
    if is_variable:
        return value in allowed
    if isinstance(value, dict):
        return any(_same_object(value, one) for one in allowed if one != "")
    if isinstance(value, list) and nested is dict:
        return any(len(one) == len(value) and all(map(_same_object, value, one)) for one in _lists(allowed))
    if isinstance(value, str):
        return _plain(value) in [_plain(one) for one in allowed if isinstance(one, str)]
    if isinstance(value, list):
        return [_plain(item) for item in value] in [[_plain(item) for item in one] for one in _lists(allowed)]
    return value in allowed


def _has_type(value: Any, allowed: Sequence[Any], wanted: type, nested: type | None) -> tuple[bool, bool]:
    """Returns (whether the value fits the declared type or the allowed values' type, whether those two differ)."""
    given = next((type(one) for one in allowed if one != ""), None)
    is_variable = given is not None and given is not wanted
    is_wanted = type(value) is wanted
    if is_wanted:
        if nested is None:
            return True, is_variable
        fits = any(
            not isinstance(one, list) or all(_has_type(item, one, nested, None)[0] for item in value) for one in allowed
        )
        return fits, is_variable
    return type(value) is given, True


def _lists(allowed: Sequence[Any]) -> list[list[Any]]:
    """Returns the allowed lists; a list that may be left out may be empty too."""
    return [one if isinstance(one, list) else [] for one in allowed if isinstance(one, list) or one == ""]


def _same_object(value: Any, allowed: Any) -> bool:
    """Compares an object with ``{key: [allowed value, ...]}``."""
    if not isinstance(value, Mapping) or not isinstance(allowed, Mapping):
        return False
    if any(key not in allowed or _plain(item) not in map(_plain, allowed[key]) for key, item in value.items()):
        return False
    return all(key in value or "" in values for key, values in allowed.items())


def _plain(value: Any) -> Any:
    return _DROPPED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value


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
