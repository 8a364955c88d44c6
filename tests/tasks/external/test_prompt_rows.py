from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kveval.errors import ConfigError
from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.external.fixed_prompts import fixed_prompt_samples
from kveval.tasks.external.prompt_rows import DEFAULT_OUTPUT_TOKENS, read_prompts
from kveval.tasks.references.of_sample import references_of
from kveval.tasks.references.reference import NoReference, References

TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
GOOD = {"prompt": "What is it?", "answer": "blue"}


def written(path: Path, *rows: Any) -> Path:
    file = path / "prompts.jsonl"
    file.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return file


def test_rows_are_read_as_they_are(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is it?"}]
    file = written(
        tmp_path,
        "\n",
        GOOD,
        {
            "messages": messages,
            "answers": ["a", "b"],
            "scorer": "exact",
            "cluster": 7,
            "max_output_tokens": 5,
            "id": "q",
        },
        {"prompt": "Say something.", "scorer": "none"},
        {"prompt": "Fill it in.", "scorer": "json", "answer": {"b": 1, "a": None}},
        {"prompt": "Nothing?", "scorer": "json", "answer": None},
    )
    given = read_prompts(file, "mine")
    first, second, third, fourth, fifth = given.prompts("chat")
    assert (given.task.name, given.task.family) == ("mine", "own")
    assert (first.where, first.content, first.answers) == ("prompts.jsonl line 2", "What is it?", ("blue",))
    assert (first.max_output_tokens, first.cluster, dict(first.doc)) == (
        DEFAULT_OUTPUT_TOKENS, None, {"scorer": "contains"},
    )  # fmt: skip
    assert (second.content, second.answers, second.cluster) == (messages, ("a", "b"), "7")
    assert (second.max_output_tokens, second.doc["id"]) == (5, "q")
    assert (third.answers, dict(third.doc)) == ((), {"scorer": "none", "scored": False})
    assert fourth.answers == ('{"a": null, "b": 1}',)
    assert fifth.answers == ("null",)
    assert given.task.score({"scorer": "contains", "answers": ["blue"]}, "It is blue.") == {"score": 1.0}


def test_a_changed_file_is_another_input(tmp_path: Path) -> None:
    before = read_prompts(written(tmp_path, GOOD), "mine").task.metadata
    after = read_prompts(written(tmp_path, GOOD | {"answer": "red"}), "mine").task.metadata
    assert before != after


def test_the_first_rows_can_be_chosen(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD, {**GOOD, "prompt": "And this?"})
    assert len(read_prompts(file, "mine", 1).prompts("chat")) == 1
    with pytest.raises(ConfigError, match=r"samples=3 of .*prompts.jsonl; use: up to 2, the rows it has"):
        read_prompts(file, "mine", 3)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{", "not JSON: "),
        ("[1]\n", r"\[1\] is not an object; use: "),
        ('{"prompt": "x", "answer": NaN}\n', "not JSON: NaN is not JSON"),
        ('{"prompt": "\\ud800", "answer": "x"}\n', "half of a surrogate pair"),
        ("[" * 100_000 + "\n", "not JSON: "),
        ({"prompt": "x", "answer": "y", "scoer": "exact"}, "unknown key 'scoer'; did you mean 'scorer'"),
        ({"answer": "y"}, "prompt, messages: neither given; use: one of them"),
        ({"prompt": "x", "messages": [{"role": "user", "content": "x"}], "answer": "y"}, "both given"),
        ({"prompt": "", "answer": "y"}, "prompt: '' is not allowed; "),
        ({"prompt": 5, "answer": "y"}, "prompt: 5 is not allowed; use: text"),
        (
            {"prompt": "x"},
            "answer: not given, and scorer 'contains' needs one; use: answer, answers, or scorer none",
        ),
        ({"prompt": "x", "answer": None}, "answer: not given"),
        ({"prompt": "x", "answer": "a", "answers": ["b"]}, "answer, answers: both given"),
        ({"prompt": "x", "answers": []}, r"answers: \[\] is not allowed; "),
        (
            {"prompt": "x", "answer": "a", "scorer": "contain"},
            "scorer: 'contain' is not a scorer; did you mean 'contains'",
        ),
        ({"prompt": "x", "answer": "a", "scorer": "none"}, "scorer: 'none' with an answer"),
        ({"prompt": "x", "answer": "(", "scorer": "regex"}, r"answer: '\(' with scorer 'regex'; not a regular"),
        (
            {"prompt": "x", "answers": ["{}", "{a"], "scorer": "json"},
            "answers: '{a' with scorer 'json'; use: a JSON",
        ),
        ({"prompt": "x", "answer": "a", "max_output_tokens": 0}, "max_output_tokens: 0 is not allowed; "),
        ({"prompt": "x", "answer": "a", "max_output_tokens": "5"}, "max_output_tokens: '5' is not allowed; "),
        ({"messages": [], "answer": "y"}, r"messages: \[\] is not allowed; "),
        (
            {"messages": [{"role": "human", "content": "x"}], "answer": "y"},
            "messages.0.role: 'human' is not allowed; .*'user'",
        ),
        ({"messages": [{"role": "user"}], "answer": "y"}, "message 0 has no content; use: text"),
        (
            {"messages": [{"role": "user", "contents": "x"}], "answer": "y"},
            "unknown key 'messages.0.contents'; did you",
        ),
        (
            {"messages": [{"role": "assistant", "content": "x"}], "answer": "y"},
            "role 'assistant'; use: user or tool",
        ),
        ({"prompt": "x", "tools": [{"type": "function"}], "answer": "y"}, "tools.0.function: required, not given"),
        ({"prompt": "x", "scorer": "tool_call", "answer": {"look_up": {}}}, "'tool_call' without tools"),
        ({"prompt": "x", "tools": [TOOL], "scorer": "tool_call", "answer": {"look_up": {}}}, "no call is right"),
        ({"prompt": "x", "tools": [TOOL], "scorer": "tool_call", "answer": "look_up"}, "or a string that holds one"),
        (GOOD | {"lead": "It is "}, "lead: given without a reference; use: reference beside it"),
        (GOOD | {"lead": "It is", "reference": "blue"}, "lead: 'It is' runs into the reference 'blue'; use: a space"),
        (GOOD | {"reference": "red"}, "reference: 'red' is wrong by scorer 'contains'; use: a right answer"),
        (GOOD | {"reference": ""}, "reference: ''"),
        (GOOD | {"reference": 7}, "reference: 7"),
    ],
)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, row: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{tmp_path}/prompts.jsonl line 2: .*{says}") as refused:
        read_prompts(written(tmp_path, GOOD, row), "mine")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 600
    assert refused.value.exit_code == 2


def test_further_bad_rows_are_counted(tmp_path: Path) -> None:
    file = written(tmp_path, {"prompt": "x"}, GOOD, {"prompt": "y"}, {"prompt": "z"})
    with pytest.raises(ConfigError, match=r"line 1: answer: .* \(wrong too: line 3, 4\)"):
        read_prompts(file, "mine")


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no prompts"):
        read_prompts(written(tmp_path, "\n\n"), "mine")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_prompts(tmp_path / "nothing.jsonl", "mine")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_prompts(tmp_path, "mine")
    (tmp_path / "latin.jsonl").write_bytes(b'{"prompt": "caf\xe9", "answer": "x"}\n')
    with pytest.raises(ConfigError, match=r"line 1: not UTF-8 \(byte 15\)"):
        read_prompts(tmp_path / "latin.jsonl", "mine")


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    file = tmp_path / "windows.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n")
    assert len(read_prompts(file, "mine").prompts("chat")) == 1


def test_rows_with_tools_are_conversations(tmp_path: Path) -> None:
    call = {"name": "look_up", "arguments": {"city": "Oslo"}}
    file = written(
        tmp_path,
        {"prompt": "Look it up.", "tools": [TOOL], "scorer": "tool_call", "answer": call},
        {"messages": [{"role": "user", "content": "Hello"}], "tools": [TOOL], "scorer": "tool_call", "answer": []},
        GOOD,
    )
    given = read_prompts(file, "mine")
    first, second, third = given.prompts("chat")
    assert first.content == [{"role": "user", "content": "Look it up."}]
    assert (first.tools, second.tools, third.tools) == ((TOOL,), (TOOL,), ())
    assert first.answers == (json.dumps([call], sort_keys=True),)
    assert second.answers == ("[]",)
    assert given.task.chat_form == "tools"
    assert read_prompts(file, "mine", 1).task.chat_form == "tools"
    assert read_prompts(written(tmp_path, GOOD), "mine").task.chat_form is None


def test_a_row_may_say_how_its_answer_would_be_written(tmp_path: Path) -> None:
    rows = [
        GOOD | {"reference": "blue", "lead": "It is "},
        GOOD | {"reference": "Blue."},
        {"prompt": "How old?", "answer": "7 years", "scorer": "exact", "reference": "7 years", "lead": "It is "},
        {"prompt": "多大？", "answer": "七岁", "reference": "七岁", "lead": "他"},
        {"prompt": "Say something.", "scorer": "none", "reference": "Something."},
        GOOD,
    ]
    given = read_prompts(written(tmp_path, *rows), "mine")
    found = [prompt.reference for prompt in given.prompts("chat")]
    assert [None if reference is None else (reference.lead, reference.text) for reference in found] == [
        ("It is ", "It is blue"),
        ("", "Blue."),
        ("It is ", "It is 7 years"),
        ("他", "他七岁"),
        ("", "Something."),
        None,
    ]
    assert given.task.reference is not None
    assert given.task.reference.none == "its row gives no reference"


def test_a_reference_changes_no_sample_id(tmp_path: Path) -> None:
    prompt_format = PromptFormat.stand_in()
    chat = ChatTemplate(tmp_path, {})
    samples = [
        fixed_prompt_samples(read_prompts(written(tmp_path, row), "mine"), prompt_format, chat)[0]
        for row in (GOOD, GOOD | {"reference": "blue", "lead": "It is "})
    ]
    assert samples[0].sample_id == samples[1].sample_id
    assert samples[0].doc == samples[1].doc
    task = read_prompts(written(tmp_path, GOOD), "mine").task
    assert references_of(task, samples[0], prompt_format) == NoReference("its row gives no reference")
    references = references_of(task, samples[1], prompt_format)
    assert isinstance(references, References)
    assert (references.unit, references.alternatives[0].text) == ("token_accuracy", " It is blue")


def test_rows_and_files_that_no_model_reads_are_refused_by_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, {"prompt": "x" * 2_000, "answer": "a"})
    monkeypatch.setattr("kveval.tasks.external.prompt_rows._MOST_ROW_BYTES", 1_000)
    with pytest.raises(ConfigError, match=r"line 1: has 2,\d+ bytes, which no model reads; use: rows of up to 1,000"):
        read_prompts(path, "own")
    monkeypatch.setattr("kveval.tasks.external.prompt_rows._MOST_FILE_BYTES", 500)
    with pytest.raises(ConfigError, match="use: files of up to 500"):
        read_prompts(path, "own")
    with pytest.raises(ConfigError, match="/dev/zero cannot be read"):
        read_prompts(Path("/dev/zero"), "own")
