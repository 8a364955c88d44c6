from __future__ import annotations

from pathlib import Path
from typing import Any

from support.stored import RECORD

from kveval.run.directory import RunDirectory
from kveval.run.records import Record, SentinelRecord
from kveval.run.set_aside import AnswersSince


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
