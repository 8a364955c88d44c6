"""The temperature a checkpoint asks to be sampled at."""

import os
from pathlib import Path

import pytest

from kveval.models.generation import serving_temperature


@pytest.mark.parametrize(
    ("text", "temperature"),
    [
        ('{"do_sample": true, "temperature": 0.6}', 0.6),
        ('{"temperature": 1}', 1.0),
        ("{}", 1.0),
        ('{"temperature": 0}', 1.0),
        ('{"temperature": 0.0}', 1.0),
        ('{"temperature": -1}', 1.0),
        ('{"temperature": NaN}', 1.0),
        ('{"temperature": 1e400}', 1.0),
        ('{"temperature": true}', 1.0),
        ('{"temperature": "warm"}', 1.0),
        ("[0.6]", 1.0),
        ("not json", 1.0),
        ("[" * 100_000, 1.0),
    ],
)
def test_a_temperature_that_can_be_sampled_at_is_taken(tmp_path: Path, text: str, temperature: float) -> None:
    (tmp_path / "generation_config.json").write_text(text, encoding="utf-8")
    assert serving_temperature(tmp_path) == temperature


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "generation_config.json")
    assert serving_temperature(tmp_path) == 1.0


def test_without_the_file_it_is_one(tmp_path: Path) -> None:
    assert serving_temperature(tmp_path) == 1.0
