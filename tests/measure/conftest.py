"""What every test of a sweep needs."""

from __future__ import annotations

import pytest
import tenacity


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.engines.client.client._BACKOFF", tenacity.wait_none())
    monkeypatch.setattr("kveval.measure.provenance.git_state", lambda _: None)


@pytest.fixture(autouse=True)
def _no_sentinels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the questions that are asked again, so that tests can count requests. `sentinels` marks the others."""
    if request.node.get_closest_marker("sentinels") is None:
        monkeypatch.setattr("kveval.measure.watch.blocks.LEAST_SENTINELS", 0)
