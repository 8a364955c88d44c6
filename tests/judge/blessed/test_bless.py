"""The blessed file: small, the same for the same run, and no edit of it goes unnoticed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.config.judge import Policy
from kveval.errors import BlessedFileError
from kveval.judge.blessed.bless import bless, digest, load_blessed
from kveval.judge.comparison.pairing import forced_texts
from kveval.judge.run_data import load_run


@pytest.fixture
def blessed_file(tmp_path: Path) -> Path:
    samples = make_samples(tasks={"a": "needle", "b": "qa"}, haystacks=3, questions=2)
    run = make_run(
        tmp_path / "run",
        samples=samples,
        answers={"fp8-first": scored(0.7), "bf16": scored(0.9), "bf16-aa": scored(0.9)},
        variants={
            "fp8-first": {"role": "candidate", "facts": {"engine_version": "0.32.0", "startup_seconds": 3.5}},
            "bf16": {"role": "baseline"},
            "bf16-aa": {"role": "aa", "of": "bf16"},
        },
        manifest={"baseline": "bf16"},
    )
    bless(load_run(run), Policy(), tmp_path / "blessed.json")
    return tmp_path / "blessed.json"


def test_reads_back_what_the_run_answered(blessed_file: Path) -> None:
    run, blessed = load_run(blessed_file.parent / "run"), load_blessed(blessed_file)
    assert sorted(blessed.variants) == ["bf16", "fp8-first"]
    assert blessed.baseline == "bf16"
    for name, records in blessed.records.items():
        ours = run.records[name].loc[records.index]
        assert len(records) == len(run.samples)
        assert list(records["outcome"]) == list(ours["outcome"])
        assert list(records["score"]) == list(ours["score"])
        assert list(records["output"]) == [digest(output) for output in ours["output"]]
    columns = ["haystack_id", "task", "family", "context_length"]
    assert blessed.questions.samples[columns].equals(run.samples.loc[blessed.questions.samples.index, columns])


def test_the_same_run_gives_the_same_bytes(blessed_file: Path) -> None:
    again = blessed_file.with_name("again.json")
    bless(load_run(blessed_file.parent / "run"), Policy(), again)
    assert again.read_bytes() == blessed_file.read_bytes()


def test_is_small_and_has_a_line_per_sample(blessed_file: Path) -> None:
    text = blessed_file.read_text()
    answers = [line for line in text.splitlines() if '"correct"' in line or '"wrong"' in line]
    assert len(answers) == 24
    assert max(map(len, answers)) < 160
    assert "startup_seconds" not in text
    assert "something else" not in text


def edited(path: Path, change: Any) -> Path:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["answers"][0].__setitem__(3, ["correct", 1.0, "00000000"]),
        lambda data: data["answers"].pop(),
        lambda data: data["policy"].__setitem__("margin", 0.5),
        lambda data: data["run"]["inputs"].clear(),
        lambda data: data.__setitem__("content_sha256", "0" * 64),
        lambda data: data.pop("content_sha256"),
        lambda data: data.__setitem__("note", "harmless"),
    ],
)
def test_an_edit_is_noticed(blessed_file: Path, change: Any) -> None:
    with pytest.raises(BlessedFileError, match="was changed since it was blessed"):
        load_blessed(edited(blessed_file, change))


def test_another_layout_is_no_edit(blessed_file: Path) -> None:
    assert load_blessed(edited(blessed_file, dict)).baseline == "bf16"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"", "not readable as JSON"),
        (b"{", "not readable as JSON"),
        (b"\xff\xfe", "not readable as JSON"),
        (b"[" * 100_000, "not readable as JSON"),
        (b"[1]", "not a file that"),
        (b'{"blessed_version": 3}', "newer than this kveval reads"),
        (b'{"blessed_version": 1}', "was changed"),
    ],
)
def test_what_is_no_blessed_file(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "blessed.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BlessedFileError, match=message):
        load_blessed(path)


def test_a_run_directory_is_no_blessed_file(blessed_file: Path) -> None:
    with pytest.raises(BlessedFileError, match="is a folder"):
        load_blessed(blessed_file.parent / "run")


def test_expected_scores_are_kept_with_what_was_forced(tmp_path: Path) -> None:
    samples = make_samples(haystacks=8, questions=5, lengths=(2048,))
    expected = {"bf16": lambda _: 0.5, "fp8": lambda _: 0.25}
    path = make_run(tmp_path / "run", samples=samples, answers=dict.fromkeys(expected, scored(0.5)), expected=expected)
    run = load_run(path)
    bless(run, Policy(), tmp_path / "blessed.json")
    blessed = load_blessed(tmp_path / "blessed.json")
    found = blessed.records["fp8"]["expected"].iloc[0]
    assert (found["score"], found["unit"], found["temperature"]) == (0.25, "probability", 1.0)
    assert found["texts"] == forced_texts(run.records["fp8"]["expected"].iloc[0])


def test_version_1_is_still_read(blessed_file: Path) -> None:
    data = json.loads(blessed_file.read_text())
    del data["content_sha256"]
    data["blessed_version"] = 1
    content = json.dumps(data, sort_keys=True, separators=(",", ":"))
    data["content_sha256"] = hashlib.sha256(content.encode()).hexdigest()
    older = blessed_file.with_name("older.json")
    older.write_text(json.dumps(data))
    now, then = load_blessed(blessed_file), load_blessed(older)
    assert all(then.records[name].equals(records) for name, records in now.records.items())
