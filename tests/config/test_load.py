"""What may be written as `load`."""

from __future__ import annotations

from typing import Any

import pytest

from kveval.config.load import LoadConfig
from kveval.config.sweep import validate_config
from kveval.errors import ConfigError


def test_defaults_are_valid() -> None:
    assert LoadConfig().longest_tokens == 4096 + 64


def test_the_longest_request_is_the_longest_prompt_with_its_output() -> None:
    assert LoadConfig(prompt_lengths=[512, 128], output_tokens=100).longest_tokens == 612


@pytest.mark.parametrize(
    ("load", "message"),
    [
        ({"concurrency": []}, "load: concurrency, request_rates: both empty"),
        ({"concurrency": [2, 2]}, "load: concurrency: 2 is listed twice"),
        ({"request_rates": [1.5, 1.5]}, r"load: request_rates: 1\.5 is listed twice"),
        ({"prompt_lengths": []}, "load.prompt_lengths: .* is not allowed; use: a list with at least one entry"),
        ({"concurrency": [0]}, "load.concurrency.0: 0 is not allowed; use: a number above 0"),
        ({"output_tokens": 1}, "load.output_tokens: 1 is not allowed"),
        ({"concurency": [2]}, "unknown key 'load.concurency'; did you mean 'concurrency'"),
    ],
)
def test_what_is_not_allowed(load: dict[str, Any], message: str) -> None:
    keys = {"model": "m", "variants": ["bf16"], "tasks": ["t"], "context_lengths": [512]}
    with pytest.raises(ConfigError, match=message):
        validate_config({**keys, "load": load})
