"""`kveval tasks` and `kveval tasks show`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import Kveval, refused


def test_tasks_are_listed(kveval: Kveval) -> None:
    code, out, _ = kveval("tasks", "--json")
    rows = json.loads(out)
    assert code == 0
    assert {"niah_single", "niah_multikey", "niah_absent"} <= {row["name"] for row in rows}
    assert all(row.keys() == {"name", "family", "version", "description", "path"} for row in rows)
    assert all(Path(row["path"]).stem == row["name"] for row in rows)
    code, out, _ = kveval("tasks")
    assert code == 0
    assert all(row["name"] in out for row in rows)


def test_a_prompt_is_shown_with_its_answer(kveval: Kveval) -> None:
    code, out, _ = kveval("tasks", "show", "niah_single", "--length", "512", "--haystack", "generated", "--json")
    shown = json.loads(out)
    assert code == 0
    assert 504 <= shown["prompt_tokens"] <= 512
    assert shown["answer"][0] in shown["prompt"]
    code, out, _ = kveval("tasks", "show", "niah_single", "--length", "512", "--haystack", "generated")
    assert code == 0
    assert out.startswith(shown["prompt"])
    assert f"sample_id: {shown['sample_id']}" in out
    assert shown["form"] == "text"
    _, out, _ = kveval("tasks", "show", "fact_update", "--length", "1k", "--haystack", "generated", "--json")
    assert "a sweep uses the chat endpoint if template and engine allow it" in json.loads(out)["form"]


def test_tasks_of_your_own_folder(
    kveval: Kveval, own_tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, out, _ = kveval("tasks", "--include-path", str(own_tasks), "--json")
    assert {"niah_single", "mine"} <= {row["name"] for row in json.loads(out)}
    _, out, _ = kveval(
        *("tasks", "show", "mine", "--include-path", str(own_tasks)),
        *("--length", "512", "--haystack", "generated", "--json"),
    )
    assert json.loads(out)["task"] == "mine"
    refused(kveval("tasks", "show", "mine"), "unknown task 'mine'")
    refused(kveval("tasks", "--include-path", "nowhere"), f"task folder {tmp_path / 'nowhere'} does not exist")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["niah_singel"], ["unknown task 'niah_singel'", "did you mean 'niah_single'"]),
        (["niah_single", "--length", "4kk"], ["--length: '4kk' is not a context length", "use tokens"]),
        (["niah_single", "--haystack", "novels"], ["haystack: 'novels' is not a haystack style", "use: essays"]),
        (["niah_single", "--model", "nowhere"], ["model: nowhere is not a folder"]),
        (["niah_single", "--length", "32", "--haystack", "generated"], ["context_length 32", "tokens or more"]),
    ],
)
def test_bad_questions_about_tasks(
    kveval: Kveval, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(kveval("tasks", "show", *arguments), *words)
