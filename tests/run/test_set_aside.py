from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.divergences import add_divergence
from support.stored import RECORD

from kveval.errors import RunDirectoryError
from kveval.run.directory import RunDirectory
from kveval.run.divergence import DivergenceFolder
from kveval.run.records import Record, SentinelRecord
from kveval.run.set_aside import AnswersSince, set_broken_lines_aside


def record(sample_id: str, **changes: Any) -> Record:
    return Record.model_validate(RECORD | {"sample_id": sample_id} | changes)


def test_answers_since_a_moment_are_moved_and_the_others_stay(tmp_path: Path) -> None:
    with RunDirectory(tmp_path).locked() as run:
        for sample_id in "ab":
            run.append(record(sample_id))
        since = AnswersSince(run, "bf16")
        for sample_id in "cde":
            run.append(record(sample_id))
        run.append_sentinel(SentinelRecord(**dict(record("a")), asked_after=4))
        run.append_cold(record("b"))
        assert since.set_aside() == 5
        assert [one.sample_id for one in run.records("bf16")] == ["a", "b"]
        assert list(run.sentinel_records("bf16")) == list(run.cold_records("bf16")) == []
        run.append(record("c"))
        assert [one.sample_id for one in run.records("bf16")] == ["a", "b", "c"]
    moved = tmp_path / "set_aside" / "records" / "bf16.jsonl"
    assert [Record.model_validate_json(line).sample_id for line in moved.read_text().splitlines()] == ["c", "d", "e"]
    assert len((tmp_path / "set_aside" / "sentinels" / "bf16.jsonl").read_text().splitlines()) == 1


def test_nothing_new_moves_nothing(tmp_path: Path) -> None:
    with RunDirectory(tmp_path).locked() as run:
        assert AnswersSince(run, "bf16").set_aside() == 0
        run.append(record("a"))
        assert AnswersSince(run, "bf16").set_aside() == 0
        assert len(list(run.records("bf16"))) == 1
    assert not (tmp_path / "set_aside").exists()


def test_answers_set_aside_twice_are_all_kept(tmp_path: Path) -> None:
    with RunDirectory(tmp_path).locked() as run:
        for sample_id in "ab":
            since = AnswersSince(run, "bf16")
            run.append(record(sample_id))
            since.set_aside()
    assert len((tmp_path / "set_aside" / "records" / "bf16.jsonl").read_text().splitlines()) == 2


def test_readings_of_texts_are_moved_with_the_answers(tmp_path: Path) -> None:
    rows = add_divergence(tmp_path, {"fp8": 0.1}, texts=3)
    folder = DivergenceFolder(tmp_path)
    kept, again, later = (row.text_id for row in rows)
    (tmp_path / "divergence" / "fp8" / f"{later}.npz").unlink()
    since = AnswersSince(RunDirectory(tmp_path), "fp8")
    reading = folder.read("fp8", kept)
    assert reading is not None
    for text_id in (again, later):
        folder.write("fp8", text_id, reading)
    assert since.set_aside() == 0
    assert [folder.read("fp8", one) is None for one in (kept, again, later)] == [False, True, True]
    assert all(folder.read("bf16", one) is not None for one in (kept, again, later))
    assert len(list((tmp_path / "set_aside" / "divergence" / "fp8").iterdir())) == 2


def test_answers_that_replace_an_unfinished_line_are_moved_too(tmp_path: Path) -> None:
    """A killed process leaves such a line, and it may be longer than all that is answered afterwards."""
    with RunDirectory(tmp_path).locked() as run:
        run.append(record("a"))
    with run.records_path("bf16").open("ab") as file:
        file.write(b'{"sample_id": "b", ' + b" " * 10_000)
    with run.locked():
        since = AnswersSince(run, "bf16")
        assert since.set_aside() == 0
        for sample_id in "bc":
            run.append(record(sample_id))
        assert since.set_aside() == 2
        assert [one.sample_id for one in run.records("bf16")] == ["a"]
    moved = tmp_path / "set_aside" / "records" / "bf16.jsonl"
    assert [Record.model_validate_json(line).sample_id for line in moved.read_text().splitlines()] == ["b", "c"]


@pytest.mark.parametrize(
    "damage",
    [
        b"\0" * 4096 + b"\n",
        b"{}\n",
        b"[1, 2\r\r\xff\xfe\n",
        b'{"sample_id": "b", "variant": "bf16"}{"sample_id": "c"}\n',
    ],
    ids=["zeros", "nothing in it", "no text", "glued"],
)
def test_lines_that_hold_no_answer_are_moved_and_the_others_stay(tmp_path: Path, damage: bytes) -> None:
    with RunDirectory(tmp_path).locked() as run:
        for sample_id in "abc":
            run.append(record(sample_id))
    path = run.records_path("bf16")
    first, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + damage + b"".join(others) + b'{"torn')
    with pytest.raises(RunDirectoryError, match=r"bf16.jsonl:2: .*; use: kveval sweep --resume"):
        list(run.records("bf16"))

    moved, lost = set_broken_lines_aside(run, "bf16", "abcz")
    assert moved.endswith(
        "bf16.jsonl: 1 line that holds no answer (2) moved to set_aside/broken/; they are asked again"
    )
    assert lost == "1 of 4 samples have no record (z)"
    assert [one.sample_id for one in run.records("bf16")] == ["a", "b", "c"]
    assert (tmp_path / "set_aside" / "broken" / "records" / "bf16.jsonl").read_bytes() == damage
    assert list(set_broken_lines_aside(run, "bf16", [])) == []
    with run.locked():
        run.append(record("d"))
    assert [one.sample_id for one in run.records("bf16")] == ["a", "b", "c", "d"]


def test_whole_files_are_not_written_again(tmp_path: Path) -> None:
    with RunDirectory(tmp_path).locked() as run:
        run.append(record("a"))
        before = run.records_path("bf16").stat()
        assert list(set_broken_lines_aside(run, "bf16", [])) == []
        assert run.records_path("bf16").stat().st_ino == before.st_ino
