"""The map in ARCHITECTURE.md shows what is there."""

from __future__ import annotations

import re

import pytest
from support import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`((?:kveval|tasks|tests|reports|scripts)/[\w./-]*)`", PAGE)))
ROOMS = re.findall(r"^\| `([\w/]+/)` \|.*\| `([\w./-]+)` \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("path", PATHS)
def test_every_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("room", "file"), ROOMS)
def test_every_room_has_the_file_to_start_at(room: str, file: str) -> None:
    assert (ROOT / room / file).exists()


def test_every_package_is_on_the_map() -> None:
    packages = {f"kveval/{path.parent.name}/" for path in (ROOT / "kveval").glob("*/__init__.py")}
    named = {"/".join(room.split("/")[:2]) + "/" for room, _ in ROOMS}
    assert packages <= named
