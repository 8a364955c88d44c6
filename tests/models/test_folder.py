from __future__ import annotations

import os
from pathlib import Path

import pytest

from kveval.errors import ConfigError, DataError
from kveval.models import folder as module
from kveval.models.folder import pointer_size, printable, read_bytes, read_json_object, reading


class PanicException(BaseException):
    """As pyo3 raises it: not an Exception."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Exception("data did not match\nany variant"), "cannot be read: data did not match any variant"),
        (PanicException("called `Option::unwrap()`"), "cannot be read: called `Option::unwrap()`"),
        (RecursionError("maximum depth"), "cannot be read: it is nested too deeply"),
        (MemoryError(), "cannot be read: it needs more memory than there is"),
        (KeyError("model"), "cannot be read: 'model'"),
        (AttributeError(), "cannot be read: AttributeError"),
        (PermissionError(13, "Permission denied", "x"), "cannot be read: Permission denied"),
        (ValueError("red \x1b[31m"), "cannot be read: red ⟨U+001B⟩[31m"),
        (ValueError("x" * 999), f"cannot be read: {'x' * 200}..."),
    ],
)
def test_every_failure_is_one_line_that_names_the_file(error: BaseException, reason: str) -> None:
    with pytest.raises(ConfigError) as caught, reading(Path("m/tokenizer.json")):
        raise error
    assert str(caught.value) == f"model: m/tokenizer.json {reason}"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [DataError("no network"), KeyboardInterrupt(), SystemExit(3)])
def test_what_is_no_failure_of_the_file_passes(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, reading(Path("m")):
        raise error
    assert caught.value is error


def test_text_for_a_terminal_has_no_control_characters() -> None:
    assert printable("né\n\x1b]0;pwned\x07\u202e\ud800") == "né ⟨U+001B⟩]0;pwned⟨U+0007⟩⟨U+202E⟩⟨U+D800⟩"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not readable as JSON"),
        (b"{", "is not readable as JSON"),
        (b"[]", "is not a JSON object"),
        (b"[" * 100_000, "cannot be read: it is nested too deeply"),
        (b'{"a":' * 100_000, "cannot be read: it is nested too deeply"),
        (b"\xff\xfe{", "cannot be read: it is not UTF-8 text"),
        (b'{"a": ' + b"9" * 5000 + b"}", "cannot be read: Exceeds the limit"),
        (b"x" * 101, "has more than 100 bytes"),
        (
            b"version https://git-lfs.github.com/spec/v1\nsize 3\n",
            "is a Git LFS pointer, not the file itself; use `git",
        ),
    ],
)
def test_json_that_is_none_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_json_object(path, "MODEL", 100 if reason.startswith("has more") else 1_000_000)
    assert str(caught.value).startswith(f"MODEL: {path} {reason}")
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_is_no_part_of_the_json(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json_object(tmp_path / "config.json") == {"a": 1}


def test_what_is_no_file_is_named_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    reasons = {
        "pipe": "is not a file",
        "loop": "cannot be read: Too many levels",
        ".": "cannot be read: Is a directory",
    }
    for name, reason in reasons.items():
        with pytest.raises(ConfigError, match=reason):
            read_json_object(tmp_path / name)
    with pytest.raises(ConfigError, match="is not a file"):
        read_json_object(Path("/dev/zero"))


def test_the_size_in_a_pointer() -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:46\nsize 135\n"
    assert pointer_size(pointer) == 135
    assert pointer_size(pointer[:-10]) is None
    assert pointer_size(pointer + b"x" * module.MOST_POINTER_BYTES) is None
    assert pointer_size(b"") is None


def test_bytes_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bytes(tmp_path / "a", 5) == b"12345"
    with pytest.raises(ValueError, match="has more than 4 bytes"):
        read_bytes(tmp_path / "a", 4)
