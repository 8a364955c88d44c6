"""Two sides compared, and the document of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.make_run import BAD, make_run, make_samples

from kveval.judge.run_data import load_run
from kveval.report.documents.diff import DIFF_VERSION, compare, diff_document
from kveval.report.files.gate import bless_run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", samples=make_samples(haystacks=4), answers=BAD)


def test_the_document_is_strict_json_with_a_row_for_each_group(path: Path) -> None:
    document = diff_document(compare(f"{path}:bf16", f"{path}:int4"))
    json.dumps(document, allow_nan=False)
    (pair,) = document["pairs"]
    assert (document["version"], pair["first"], pair["second"]) == (DIFF_VERSION, "bf16", "int4")
    assert [row["level"] for row in pair["rows"]] == ["overall", "length", "length", "family", "cell", "cell"]
    assert pair["drift"]["positions"] > 0


def test_a_side_without_outputs_shows_no_drift(path: Path, tmp_path: Path) -> None:
    bless_run(path, tmp_path / "blessed.json")
    found = compare(str(tmp_path / "blessed.json"), str(path))
    assert [drift for _, drift in found.pairs] == [None, None]
    assert {pair["drift"] for pair in diff_document(found)["pairs"]} == {None}


def test_a_run_against_itself_loses_nothing(path: Path) -> None:
    for pair in diff_document(compare(str(path), str(path)))["pairs"]:
        assert {(row["lost"], row["gained"], row["identical"]) for row in pair["rows"]} == {(0, 0, 1.0)}
    assert len(load_run(path).samples) == 80
