"""What a folder may hold in place of a tokenizer, and that each case is one line."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from support.model_folder import model_dir

from kveval.errors import ConfigError, KvevalError, UsageError
from kveval.models.checkpoint import hash_model, read_model
from kveval.models.tokenizer import load_tokenizer
from kveval.tasks.assembly.prompt import PromptFormat

FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
VALUES = (None, 0, -1, 1.5, True, "", "x", [], {}, [None], 1 << 70, "\x1b[31m", "\ud800", {"content": 3}, "{{ 1/0 }}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = model_dir(tmp_path / "m")
    (path / "special_tokens_map.json").write_text('{"bos_token": "<s>"}')
    (path / "added_tokens.json").write_text('{"<x>": 5}')
    return path


def one_line(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        PromptFormat.load(path)
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_a_tokenizer_of_a_newer_release_is_named(folder: Path) -> None:
    document = json.loads((folder / "tokenizer.json").read_text())
    document["model"]["type"] = "BPEv2"
    (folder / "tokenizer.json").write_text(json.dumps(document))
    assert f"model: {folder}/tokenizer.json cannot be read: " in one_line(folder)
    assert "untagged enum ModelUntagged" in one_line(folder)


@pytest.mark.parametrize("name", [*FILES, "chat_template.jinja"])
def test_a_file_that_is_binary_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"\x80\x81\xff" * 50)
    assert f"{folder}/{name}" in one_line(folder)


@pytest.mark.parametrize("name", [*FILES, "chat_template.jinja"])
@pytest.mark.parametrize("content", ["", "[" * 100_000, "[1]", '"x"', "NaN", "{"])
def test_a_file_of_wrong_text_is_one_line_or_does_not_matter(folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content)
    try:
        PromptFormat.load(folder)
    except UsageError as error:
        assert str(error).isprintable()  # noqa: PT017


def test_a_folder_and_a_loop_where_files_are_expected(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").mkdir()
    assert str(folder) in one_line(folder)
    (folder / "tokenizer.json").rmdir()
    (folder / "tokenizer.json").symlink_to("tokenizer.json")
    assert str(folder) in one_line(folder)


@pytest.mark.parametrize("size", [0, "49152", True, [], 1 << 70])
def test_a_vocabulary_that_is_no_number_is_named(folder: Path, size: object) -> None:
    (folder / "config.json").write_text(json.dumps({"vocab_size": size}))
    assert "config.json: vocab_size: " in one_line(folder)


def test_a_tokenizer_with_code_of_its_own_is_refused_without_a_question(folder: Path) -> None:
    """No code of the folder runs, and nothing waits for an answer on standard input."""
    (folder / "tokenizer.json").unlink()
    settings = {"tokenizer_class": "Mine", "auto_map": {"AutoTokenizer": ["mine.Mine", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "mine.py").write_text("raise OSError('the code of the folder ran')")
    assert "needs Python code of that folder; if you trust it, use engine.args: {trust-remote" in one_line(folder)
    with pytest.raises(ConfigError, match="the code of the folder ran"):
        load_tokenizer(folder, trusts_code=True)


def test_mutated_folders_are_read_or_refused_in_one_line(folder: Path) -> None:
    draw = random.Random(0)
    whole = {name: (folder / name).read_bytes() for name in FILES}
    for _ in range(60):
        name = draw.choice(FILES)
        (folder / name).write_bytes(_mutated(whole[name], draw))
        try:
            PromptFormat.load(read_model(folder).path)
            load_tokenizer(folder)
            hash_model(read_model(folder))
        except KvevalError as error:
            assert str(error).isprintable(), name  # noqa: PT017
            assert error.exit_code == 2, name  # noqa: PT017
        (folder / name).write_bytes(whole[name])


def _mutated(content: bytes, draw: random.Random) -> bytes:
    if draw.random() < 0.2:
        return content[: draw.randrange(len(content))]
    document = json.loads(content)
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = draw.choice(list(keys))
        if not (isinstance(place[key], dict | list) and place[key]) or draw.random() < 0.4:
            place[key] = draw.choice(VALUES)
            return json.dumps(document).encode()
        place = place[key]
