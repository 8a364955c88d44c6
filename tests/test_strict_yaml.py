from __future__ import annotations

from pathlib import Path

import pytest

from kveval.errors import ConfigError
from kveval.strict_yaml import MOST_BYTES, MOST_LEVELS, MOST_VALUES, read_yaml

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


def read(tmp_path: Path, text: str | bytes, **options: tuple[str, ...]) -> object:
    path = tmp_path / "a.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return read_yaml(path, "a.yaml", **options)


def test_plain_values_are_read(tmp_path: Path) -> None:
    text = "a: [1, 2.5, yes, ~, text]\nb: &b {c: d}\ne: {<<: *b, f: '2024-01-02'}\n"
    assert read(tmp_path, text) == {
        "a": [1, 2.5, True, None, "text"], "b": {"c": "d"}, "e": {"c": "d", "f": "2024-01-02"},
    }  # fmt: skip


def test_tags_of_functions_are_read_as_text_where_they_are_allowed(tmp_path: Path) -> None:
    assert read(tmp_path, "a: !function m.f", text_tags=("!function",)) == {"a": "m.f"}
    with pytest.raises(ConfigError, match=r"a\.yaml \(line 1\): not YAML: tag '!function'; use: "):
        read(tmp_path, "a: !function m.f")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("2024-13-45", "is a date in YAML; use quotes around it"),
        ("2024-01-02T25:61:61Z", "is a date in YAML"),
        ("!!timestamp x", "is a date in YAML"),
        ("!!int x", "'x' is not of the type 'int'"),
        ("!!float x", "'x' is not of the type 'float'"),
        ("!!bool x", "'x' is not of the type 'bool'"),
        ("!!binary '*'", "tag '.*binary'; use: text, numbers"),
        ("!!set {a, b}", "tag '.*set'"),
        ("!!python/object/apply:os.getcwd []", "tag "),
        ("9" * 400, "a number of more than 30 digits"),
        ("9" * 5_000, "not of the type 'int'|more than 30 digits"),
        ("0x" + "f" * 20_000, "a number of more than 30 digits"),
        ("[" * (MOST_LEVELS + 1) + "]" * (MOST_LEVELS + 1), "nested deeper than 64 levels"),
        ("[" * 5_000, "nested deeper than 64 levels"),
        ("{a: " * 5_000, "nested deeper than 64 levels"),
        ("[" + "1," * MOST_VALUES + "]", "more than 8,000 values"),
        ("*nowhere", "undefined alias"),
        ("&x [*x]", "alias 'x' stands for something that holds it"),
        ("{a: 1, a: 2}", "key 'a' is given twice"),
        ('"\\0"', "text with a null character"),
        ('"\\ud800"', "half of a surrogate pair"),
        ("{[1]: 2}", "unhashable"),
    ],
)
def test_what_is_no_plain_value_is_told_with_its_line(tmp_path: Path, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"a\.yaml \(line 2\): not YAML: .*({message})") as caught:
        read(tmp_path, f"first: 1\nkey: {value}\n")
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "more than 8,000 values"),
        (b"a: \xff", "not YAML: "),
        (b"a: \x00", "not YAML: "),
        ("a: 1\n" * MOST_BYTES, "larger than 256 KiB"),
    ],
)
def test_files_that_would_fill_the_memory_or_hold_no_text_are_refused(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_folders_and_devices_are_no_files(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/zero")):
        with pytest.raises(ConfigError, match=r"a\.yaml: not a file"):
            read_yaml(path, "a.yaml")
    with pytest.raises(ConfigError, match=r"a\.yaml: No such file"):
        read_yaml(tmp_path / "none", "a.yaml")
