from __future__ import annotations

from typing import Any

import pytest
from support.model_configs import DENSE

from kveval.errors import UsageError
from kveval.memory.architecture import read_architecture
from kveval.memory.budget import GIB
from kveval.memory.settings import EngineSettings, default_batched_tokens


def test_defaults_are_those_of_vllm() -> None:
    assert default_batched_tokens("cpu", None) == 2048
    assert [default_batched_tokens("gpu", gib * GIB) for gib in (24, 80, 192)] == [2048, 8192, 16384]
    assert EngineSettings().in_flight_tokens(None) == 2 * 8192
    assert EngineSettings("cpu").in_flight_tokens(None) == 2048
    assert EngineSettings("cpu", batched_tokens=512).in_flight_tokens(None) == 512
    architecture = read_architecture(DENSE, "config.json")
    assert EngineSettings().block_tokens_of(architecture) == 16
    assert EngineSettings("cpu").block_tokens_of(architecture) == 128
    assert EngineSettings("cpu", 32).block_tokens_of(architecture) == 32


@pytest.mark.parametrize(
    ("settings", "word"), [({"device": "tpu"}, "--device"), ({"block_tokens": 0}, "--block-size"),
                          ({"batched_tokens": -1}, "--batched-tokens"), ({"tensor_parallel": 0}, "--tensor-parallel")],
)  # fmt: skip
def test_invalid_settings_are_refused(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=f"{word}: .*; use"):
        EngineSettings(**settings)
