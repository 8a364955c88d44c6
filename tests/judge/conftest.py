"""What the tests of the judge share."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.judge_command import kveval
from support.make_run import GOOD, make_run


@pytest.fixture
def blessed(tmp_path: Path) -> Path:
    """A blessed file of `GOOD`."""
    path = make_run(tmp_path / "blessed", answers=GOOD)
    assert kveval("bless", path, "--out", tmp_path / "blessed.json").code == 0
    return tmp_path / "blessed.json"
