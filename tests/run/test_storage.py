from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from kveval.errors import StorageError
from kveval.run.facts import Finding
from kveval.run.storage import storage, to_json, write_atomically


def test_numpy_values_become_plain_json() -> None:
    value = {"n": np.int64(3), "x": np.float32(0.5), "row": np.arange(3), "path": Path("/a")}
    assert json.loads(to_json(value)) == {"n": 3, "x": 0.5, "row": [0, 1, 2], "path": "/a"}
    finding = Finding(level="info", code="a", message="b")
    assert json.loads(to_json(finding)) == {"level": "info", "code": "a", "message": "b"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"deep": [-float("inf")]}, np.float64("nan")])
def test_non_finite_numbers_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(value)


def test_unknown_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        to_json(object())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_what_to_do(number: int) -> None:
    with (
        pytest.raises(StorageError, match=r"/run: the disk is full; free some space .* --resume") as caught,
        storage(Path("/run")),
    ):
        raise OSError(number, os.strerror(number))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EEXIST, errno.ENOENT, errno.EFBIG, errno.EIO])
def test_whatever_else_the_disk_refuses_is_one_line(number: int) -> None:
    with pytest.raises(StorageError, match=r"^/run: not writable \("), storage(Path("/run")):
        raise OSError(number, os.strerror(number))


def test_errors_of_libraries_pass_through() -> None:
    with pytest.raises(OSError, match=r"^no file named pytorch_model\.bin$"), storage(Path("/run")):
        raise OSError("no file named pytorch_model.bin")


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_atomically(path, "old")
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_keeps_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.json"
    write_atomically(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="the disk is full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_vanished_folder_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        write_atomically(tmp_path / "gone" / "file.json", "text")


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    """So does a device: replaced by a file, /dev/null would fill a disk."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(path, "verdict")
    assert os.read(reading, 100) == b"verdict"
    os.close(reading)
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]
