"""BFCL's functions and requests."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from jsonschema import Draft202012Validator

from kveval.tasks.corpora import bfcl
from kveval.tasks.corpora.texts import BFCL
from kveval.tasks.families.tool_calls.scorers import called
from kveval.tasks.scoring.call_match import same_calls


def test_every_request_is_served_by_its_own_reference_only():
    for kind in ("simple", "multiple", "parallel"):
        asked = bfcl.requests(kind)
        assert len(asked) > 100
        for request, other in zip(asked, asked[1:] + asked[:1], strict=True):
            assert same_calls(request.reference, request.expected, request.functions)
            if request.functions.keys() != other.functions.keys():
                assert not same_calls(other.reference, request.expected, request.functions)
    assert all(not request.expected for request in bfcl.requests("irrelevant"))


def marked(calls, form):
    """Calls as models of some kind write them."""
    return "\n".join(form.format(name=call["name"], arguments=json.dumps(call["arguments"])) for call in calls)


@pytest.mark.parametrize(
    "form",
    [
        '<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>',
        "<function={name}>{arguments}</function>",
        "[TOOL_CALLS]{name}{arguments}",
        "{name}{arguments}",
        "Action: {name}\nAction Input: {arguments}",
    ],
)
def test_every_reference_is_right_in_every_form_and_never_no_call(form):
    for kind in ("simple", "multiple", "parallel"):
        for request in bfcl.requests(kind):
            functions = json.dumps(list(request.functions.values()))
            output = marked(request.reference, form)
            assert called({"expected": json.dumps(request.expected), "functions": functions}, [output])["score"] == 1
            absent = called({"expected": "[]", "functions": "[]"}, [output])
            assert (absent["score"], absent["abstained"]) == (0, 0)


def test_a_refusal_may_name_any_function_and_none_may_be_called_without_keywords():
    absent = {"expected": "[]", "functions": "[]"}
    for function in bfcl.functions():
        assert called(absent, [f"No function, such as {function.name}(), can do this."])["score"] == 1
        assert called(absent, [f"{function.name}(5, 3)"])["score"] == 0


def test_every_function_has_a_valid_schema_and_a_name_of_its_own():
    names = Counter(function.name for function in bfcl.functions())
    assert len(names) == len(bfcl.functions()) > 1500
    for function in bfcl.functions():
        assert re.fullmatch(r"[A-Za-z0-9_-]+", function.name)
        Draft202012Validator.check_schema(function.tool["parameters"])
        assert function.tool["parameters"]["type"] == "object"
        assert json.loads(function.line) == function.tool


def test_the_package_is_pinned():
    assert len(BFCL.sha256) == 64
    assert BFCL.fetch().is_file()
