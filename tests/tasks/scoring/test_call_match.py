"""BFCL's rule against BFCL's own checker, as the pinned package ships it."""

from __future__ import annotations

import copy
import random
import sys
import types
import zipfile
from enum import Enum
from itertools import permutations

import pytest

from kveval.tasks.corpora import bfcl
from kveval.tasks.corpora.texts import BFCL
from kveval.tasks.scoring.call_match import (
    fits_schema,
    json_schema,
    same_call,
    same_calls,
    same_in_any_order,
    tool_function,
    tool_name,
)


class Language(Enum):
    PYTHON = "python"
    JAVA = "java"
    JAVASCRIPT = "javascript"


@pytest.fixture(scope="module")
def checker():
    """The package's module, without what it imports for other languages and models."""
    stubs = {
        "bfcl_eval.constants.enums": {"Language": Language},
        "bfcl_eval.constants.model_config": {"MODEL_CONFIG_MAPPING": {}},
        "bfcl_eval.constants.type_mappings": {"JAVA_TYPE_CONVERSION": {}, "JS_TYPE_CONVERSION": {}},
        "bfcl_eval.eval_checker.ast_eval.type_convertor.java_type_converter": {"java_type_converter": None},
        "bfcl_eval.eval_checker.ast_eval.type_convertor.js_type_converter": {"js_type_converter": None},
    }
    with zipfile.ZipFile(BFCL.fetch()) as wheel:
        source = wheel.read("bfcl_eval/eval_checker/ast_eval/ast_checker.py").decode()
    module = types.ModuleType("ast_checker")
    with pytest.MonkeyPatch.context() as patch:
        for name, members in stubs.items():
            stub = types.ModuleType(name)
            stub.__dict__.update(members)
            patch.setitem(sys.modules, name, stub)
        exec(compile(source, "ast_checker.py", "exec"), module.__dict__)  # noqa: S102 - pinned by its sha256
    return module


def changed(value, rng):
    """Something near a value: another type, spelling, size or content."""
    options = [value, None, str(value), [value], {"a": value}, "", True, 1, 2.0]
    if isinstance(value, str):
        options += [value.upper(), value.replace(" ", "_"), f"{value}.", value + "x", value.replace("'", '"')]
    if isinstance(value, int | float) and not isinstance(value, bool):
        options += [float(value), int(value), value + 1, -value]
    if isinstance(value, list):
        options += [value[::-1], value[:-1], [changed(item, rng) for item in value]]
    if isinstance(value, dict):
        options += [{key: changed(item, rng) for key, item in value.items()}, dict(list(value.items())[1:])]
    return rng.choice(options)


def variants(request, call, rng):
    """The right call, then calls with arguments changed, left out or added."""
    yield call
    declared = request.functions[call["name"]]["parameters"]["properties"]
    allowed = next(one["parameters"] for one in request.expected if one["name"] == call["name"])
    for _ in range(12):
        arguments = copy.deepcopy(call["arguments"])
        for name in list(arguments):
            match rng.randrange(5):
                case 0:
                    arguments[name] = changed(arguments[name], rng)
                case 1:
                    del arguments[name]
                case 2:
                    arguments[name] = rng.choice(allowed[name])
        if rng.random() < 0.2:
            arguments[rng.choice([*declared, "stranger"])] = rng.choice([1, "x", [], True])
        yield {"name": rng.choice([call["name"]] * 5 + ["other"]), "arguments": arguments}


@pytest.mark.parametrize("kind", ["simple", "multiple", "parallel"])
def test_single_calls_are_judged_as_bfcl_judges_them(checker, kind):
    rng = random.Random(kind)
    right = wrong = 0
    for request in bfcl.requests(kind):
        for expected, reference in zip(request.expected[:1], request.reference[:1], strict=True):
            function = request.functions[expected["name"]]
            for call in variants(request, reference, rng):
                ours = same_call(call, expected, function)
                theirs = checker.simple_function_checker(
                    function,
                    copy.deepcopy({call["name"]: call["arguments"]}),
                    copy.deepcopy({expected["name"]: expected["parameters"]}),
                    Language.PYTHON,
                    "any",
                )["valid"]
                assert ours == theirs, (call, expected)
                right, wrong = right + ours, wrong + (not ours)
    assert right > 300
    assert wrong > 300


def test_several_calls_are_judged_as_bfcl_judges_them(checker):
    rng = random.Random(1)
    outcomes = []
    for request in bfcl.requests("parallel"):
        calls = request.reference
        shuffled = rng.sample(calls, len(calls))
        for made in (
            calls,
            calls[::-1],
            calls[1:],
            [*calls, calls[0]],
            shuffled,
            calls[:1] * len(calls),
        ):
            ours = same_calls(made, request.expected, request.functions)
            # BFCL takes the first call that fits each expected one. Another order of them may fit where that fails.
            orders = permutations(request.expected) if ours else [request.expected]
            theirs = any(
                checker.parallel_function_checker_no_order(
                    copy.deepcopy(list(request.functions.values())),
                    [copy.deepcopy({call["name"]: call["arguments"]}) for call in made],
                    [copy.deepcopy({one["name"]: one["parameters"]}) for one in order],
                    Language.PYTHON,
                    "any",
                )["valid"]
                for order in orders
            )
            assert ours == theirs, (made, request.expected)
            outcomes.append(ours)
    assert 0.3 < sum(outcomes) / len(outcomes) < 0.7


@pytest.mark.parametrize(
    ("calls", "expected", "same"),
    [("ab", "ba", True), ("aab", "aba", True), ("ab", "aab", False), ("aab", "ab", False), ("", "", True)],
)
def test_calls_pair_in_any_order(calls, expected, same):
    assert same_in_any_order(list(calls), list(expected), lambda one, other: one == other) is same


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


def test_calls_are_paired_as_a_whole_and_not_one_after_the_other():
    """The first call fits both expected ones, the second only the one that the first would take."""
    expected = [{"fits": ["a", "b"]}, {"fits": ["a"]}]
    calls = [{"name": "a"}, {"name": "b"}]

    def same(call, one):
        return call["name"] in one["fits"]

    assert same_in_any_order(calls, expected, same)
    assert same_in_any_order(calls[::-1], expected, same)
    assert not same_in_any_order([calls[1], calls[1]], expected, same)
    assert not same_in_any_order(calls[:1], expected, same)
    assert same_in_any_order([], [], same)
