"""Keys of ``divergence``, and what must hold between them and the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kveval.config.sweep import DivergenceConfig, SweepConfig, validate_config
from kveval.errors import ConfigError


def config(divergence: Any, **changes: Any) -> SweepConfig:
    minimal = {"model": "m", "variants": ["bf16"], "tasks": ["t"], "context_lengths": [512]}
    return validate_config({**minimal, **changes, "divergence": divergence})


def test_every_key_has_a_default_and_paths_are_those_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert config({}).divergence == DivergenceConfig(samples=8, tokens=256, top_k=256, texts=[])
    assert config(None).divergence is None
    monkeypatch.chdir(tmp_path)
    found = config({"samples": 0, "tokens": 4096, "texts": ["book.txt"]}).divergence
    assert found is not None
    assert found.texts == [tmp_path / "book.txt"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"samples": 0}, "samples, texts: 0 and empty; use a number of samples, or a file in texts"),
        ({"samples": True}, "divergence.samples: True is not a number"),
        ({"samples": -1}, r"divergence\.samples: -1 is not allowed; use: "),
        ({"tokens": 0}, r"divergence\.tokens: 0 is not allowed; use: a number above 0"),
        ({"top_k": 0}, r"divergence\.top_k: 0 is not allowed; use: a number above 0"),
        ({"top_k": 1 << 20}, r"divergence\.top_k: 1048576 is not allowed; use: 16384 or less"),
        ({"texts": ["a", "a"]}, "texts: .*a is listed twice"),
        ({"texts": "a"}, r"divergence\.texts: 'a' is not allowed; use: a list"),
        ({"token": 1}, r"unknown key 'divergence\.token'; did you mean 'tokens'"),
        (True, "divergence: True is not allowed; use: keys with values"),
    ],
)
def test_bad_values_are_named_in_one_line(keys: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        config(keys)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_forced_cannot_be_compared() -> None:
    with pytest.raises(
        ConfigError, match=r"forced_decode is false, so nothing is forced; use: requests\.forced_decode: true"
    ):
        config({}, requests={"forced_decode": False})
