from __future__ import annotations

import sys

import pytest

from kveval.tasks.scoring.jail import answers


def job(program, *calls, modules=None):
    return {"program": program, "function": "f", "modules": modules or {}, "calls": [list(call) for call in calls]}


def test_every_call_gives_a_value_or_an_error():
    assert list(answers(job("def f(x): return 1 / x", (2,), (0,)))) == [
        {"value": 0.5},
        {"error": "ZeroDivisionError: division by zero"},
    ]


@pytest.mark.parametrize("value", ["float('nan')", "{1}", "object()"])
def test_a_value_that_is_not_json_is_an_error(value):
    assert "error" in next(answers(job(f"def f(): return {value}", ())))


def test_a_program_that_does_not_start_fails_every_call():
    assert [set(answer) for answer in answers(job("def f(:", (1,), (2,)))] == [{"error"}, {"error"}]


def test_a_module_can_be_imported_by_its_dotted_name(monkeypatch):
    for name in ("amber", "amber.falcon"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    try:
        program = "from amber.falcon import g\ndef f(x): return g(x)"
        found = list(answers(job(program, (1,), modules={"amber.falcon": "def g(x): return x + 1"})))
    finally:
        for name in ("amber.falcon", "amber"):
            sys.modules.pop(name, None)
    assert found == [{"value": 2}]
