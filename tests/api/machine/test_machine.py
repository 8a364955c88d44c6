from __future__ import annotations

from pathlib import Path

import pytest

from kveval.api.machine import machine
from kveval.api.machine.gpus import Gpu
from kveval.api.machine.machine import available_bytes, disk_checks, memory_checks, text_check


def gpu(total: int | None, free: int | None) -> Gpu:
    return Gpu("0", "GPU-a", "1", total, free, "a GPU")


def test_a_gpu_that_is_in_use_is_noted_with_the_share_that_is_left() -> None:
    check, _ = memory_checks([gpu(100 << 30, 50 << 30)])
    assert (check.state, check.name) == ("note", "memory of GPU 0")
    assert "50.0 of 100.0 GiB free" in check.found
    assert "gpu-memory-utilization: 0.5}" in check.todo
    assert next(memory_checks([gpu(100 << 30, 92 << 30)])).state == "ok"


def test_memory_that_is_not_known_is_said() -> None:
    assert next(memory_checks([gpu(None, None)])).found.startswith("not known")


def test_a_limit_of_the_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit, used = tmp_path / "max", tmp_path / "current"
    monkeypatch.setattr(machine, "_LIMIT", limit)
    monkeypatch.setattr(machine, "_USED", used)
    free = available_bytes()
    used.write_text("1000\n")
    limit.write_text("max\n")
    assert available_bytes() > 5000
    limit.write_text("6000\n")
    assert available_bytes() == 5000 < free
    assert [check.found.split()[0] for check in memory_checks([])] == ["0.0"]


def test_room_is_told_where_runs_and_texts_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVEVAL_CACHE", str(tmp_path / "not" / "there"))
    runs, texts = disk_checks()
    assert (runs.name, texts.name) == ("disk for runs", "disk for texts")
    assert f"free in {tmp_path}" in runs.found
    assert f"{tmp_path}/not/there" in texts.found
    monkeypatch.setattr("os.access", lambda *_: False)
    assert [(check.state, bool(check.todo)) for check in disk_checks()] == [("note", True)] * 2


def test_little_room_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1 << 20}))
    assert [check.state for check in disk_checks()] == ["note", "note"]


def test_texts_that_are_absent_are_fetched_by_name() -> None:
    check = text_check([("essays", "present"), ("bfcl", "not fetched"), ("django", "damaged")])
    assert check.state == "note"
    assert check.todo.endswith("kveval data fetch bfcl django")
    assert text_check([("essays", "present")]).state == "ok"
