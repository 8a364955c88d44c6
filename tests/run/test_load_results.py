from __future__ import annotations

import json
from pathlib import Path

import pytest

from kveval.errors import RunDirectoryError
from kveval.run.load_results import read_load


def test_a_broken_load_file_is_named(tmp_path: Path) -> None:
    assert read_load(tmp_path) is None
    (tmp_path / "load.json").write_text("{")
    with pytest.raises(RunDirectoryError, match=r"load.json: document: Invalid JSON"):
        read_load(tmp_path)
    (tmp_path / "load.json").write_text(json.dumps({"schema_version": 1}))
    with pytest.raises(RunDirectoryError, match=r"load.json: kveval_version: Field required"):
        read_load(tmp_path)
