from __future__ import annotations

from pathlib import Path

import pytest

from kveval.config.yaml_file import read_yaml
from kveval.errors import ConfigError


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", ["model: a\nmodel: b\n", "judge: {margin: 0.1, margin: 0.2}\n"])
def test_a_key_given_twice_is_named_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"line \d\): not YAML: key 'm(odel|argin)' is given twice"):
        read_yaml(write(tmp_path / "c.yaml", text), "c.yaml")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"a\.yaml: not YAML"):
        read_yaml(tmp_path / "a.yaml", "a.yaml")
