from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil

from kveval.engines.presence import presence


def test_the_process_that_listens_and_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\n")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        seen = presence([psutil.Process()], url, log)
        assert [one.split()[0] for one in seen.listeners] == [str(os.getpid())]
        log.write_text("one\ntwo\n")
        assert list(seen.compared_with(presence([psutil.Process()], url, log))) == []
    # Between two servers nobody listens: that says nothing.
    assert list(seen.compared_with(presence([psutil.Process()], url, log))) == []


def test_another_process_at_the_same_address_is_a_change(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        seen = presence([psutil.Process()], url, tmp_path / "log")
        other = type(seen)(frozenset({"1 started 2026-12-01"}), None)
        ((name, (before, after)),) = seen.compared_with(other)
    assert (name, after) == ("process", "1 started 2026-12-01")
    assert str(os.getpid()) in before


def test_a_log_that_shrank_was_replaced_or_is_gone_is_a_change(tmp_path: Path) -> None:
    log, other, me = tmp_path / "log", tmp_path / "other", [psutil.Process()]
    log.write_text("many lines\n")
    seen = presence(me, "http://127.0.0.1:1", log)
    log.write_text("few\n")
    assert [name for name, _ in seen.compared_with(presence(me, "http://127.0.0.1:1", log))] == ["log"]
    other.write_text("another file\n")
    other.replace(log)
    assert [name for name, _ in seen.compared_with(presence(me, "http://127.0.0.1:1", log))] == ["log"]
    log.unlink()
    ((_, values),) = seen.compared_with(presence(me, "http://127.0.0.1:1", log))
    assert values[1] == "no file"


def test_a_server_that_runs_elsewhere_has_no_presence(tmp_path: Path) -> None:
    nothing = presence([], "http://example.org", tmp_path)
    assert nothing == type(nothing)()
    assert list(nothing.compared_with(nothing)) == []
