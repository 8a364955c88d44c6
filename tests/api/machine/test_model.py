from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.model_configs import published_config

import kveval
from kveval.api.machine.model import fit_checks


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The config.json of Llama-3.1-8B: 128 KiB a token, and a window of 128K."""
    (tmp_path / "config.json").write_text(json.dumps(published_config("llama-3.1-8b")))
    return tmp_path


def states(model: Path, cache: str, stored: list[str] | None = None) -> dict[str, str]:
    sizes = kveval.estimate_memory(model, cache=cache, formats=["bf16", "fp8"], device="hopper")
    return {check.name: check.state for check in fit_checks(sizes, stored)}


def test_a_window_that_fits_half_fits_or_does_not(model: Path) -> None:
    assert states(model, "16GiB") == {"fits in bfloat16": "ok", "fits in fp8": "ok"}
    assert states(model, "8GiB") == {"fits in bfloat16": "note", "fits in fp8": "ok"}
    # The candidate that does not fit is not measured; without the baseline there is nothing to measure.
    assert states(model, "1MiB") == {"fits in bfloat16": "missing", "fits in fp8": "note"}


def test_only_what_the_device_stores_is_counted(model: Path) -> None:
    assert states(model, "16GiB", ["bfloat16"]) == {"fits in bfloat16": "ok"}


def test_lengths_and_what_to_do_are_said(model: Path) -> None:
    sizes = kveval.estimate_memory(model, cache="8GiB", formats=["bf16"], device="cpu")
    (check,) = fit_checks(sizes, None)
    assert check.found.startswith("up to 65,536 tokens; at once 16 of 4,096, 2 of 32,768 tokens; the window of 131,072")
    assert check.todo.endswith("or raise engine.kv_cache_gib")
