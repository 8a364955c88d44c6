from __future__ import annotations

import huggingface_hub.constants as constants
import pytest

from kveval.tasks.external import hub


@pytest.fixture(autouse=True)
def _no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


def test_libraries_use_their_caches_when_the_hub_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with hub.hub_bounded() as address:
        assert constants.HF_HUB_OFFLINE is True
    assert constants.HF_HUB_OFFLINE is False
    assert address == "http://127.0.0.1:9"


def test_libraries_stay_as_they_are_when_the_hub_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "_answers", lambda: True)
    with hub.hub_bounded():
        assert constants.HF_HUB_OFFLINE is False


def test_an_offline_environment_counts_for_libraries_that_are_imported_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with hub.hub_bounded():
        assert constants.HF_HUB_OFFLINE is True


def test_an_error_of_the_hub_is_found_among_its_causes() -> None:
    error = ValueError("no data")
    error.__cause__ = ConnectionError("refused")
    assert hub.needs_hub(error)
    assert not hub.needs_hub(ValueError("no data"))
