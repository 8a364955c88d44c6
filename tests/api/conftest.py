"""A small configuration, as a notebook writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.commands import use_installation

from kveval.engines.base import Installation


@pytest.fixture
def keys(
    stand_in: None, checkpoint: Path, installation: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> dict[str, Any]:
    """Keys of a small configuration. The working directory is empty."""
    use_installation(monkeypatch, installation)
    monkeypatch.chdir(tmp_path)
    return {
        "model": str(checkpoint), "variants": ["bf16", "fp8"], "context_lengths": [512], "tasks": ["niah_single"],
        "samples": 4, "questions_per_haystack": 2, "haystack": "generated", "aa_share": 0.0, "cold_check": 0,
    }  # fmt: skip
