"""What every test of a sweep needs."""

from __future__ import annotations

import pytest
import tenacity


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.engines.client.client._BACKOFF", tenacity.wait_none())
    monkeypatch.setattr("kveval.measure.provenance.git_state", lambda _: None)
