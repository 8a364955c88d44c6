from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.stored import MANIFEST, RECORD

from kveval.errors import RunDirectoryError, StorageError
from kveval.run.directory import RunDirectory
from kveval.run.manifest import SCHEMA_VERSION, Manifest
from kveval.run.records import Record, SampleRow, SentinelRecord
from kveval.run.storage import to_json

VARIANT = {"name": "bf16", "role": "baseline", "spec": {}}


def record(sample_id: str, **changes: Any) -> Record:
    return Record.model_validate(RECORD | {"sample_id": sample_id} | changes)


def manifest(**changes: Any) -> Manifest:
    return Manifest.model_validate(MANIFEST | {"variants": {"bf16": VARIANT}} | changes)


def sample_row(sample_id: str) -> SampleRow:
    return SampleRow(
        sample_id=sample_id, haystack_id="h", task="niah_single", family="needle", context_length=512,
        prompt_tokens=512, prompt_sha256="0", first_token_ids=[1], depth_percent=None, max_output_tokens=4, stop=[],
        doc={"answers": ["1"]},
    )  # fmt: skip


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    with RunDirectory(tmp_path / "run").locked() as run:
        run.write_manifest(manifest())
        run.write_samples([sample_row("a"), sample_row("b")])
        run.append(record("a"))
        run.append(record("b", output="é\u2028\n\x00"))
    again = RunDirectory(tmp_path / "run")
    assert again.exists()
    assert again.read_manifest() == manifest()
    assert [row.sample_id for row in again.samples()] == ["a", "b"]
    assert [r.output for r in again.records("bf16")] == ["1", "é\u2028\n\x00"]
    assert list(again.records("fp8")) == []


def test_the_last_record_of_a_sample_counts(tmp_path: Path) -> None:
    with RunDirectory(tmp_path).locked() as run:
        for sample_id, score in (("a", 0.0), ("b", 1.0), ("a", 1.0)):
            run.append(record(sample_id, score=score))
        assert [(r.sample_id, r.score) for r in run.records("bf16")] == [("b", 1.0), ("a", 1.0)]


def test_sentinels_keep_every_answer_and_stay_apart_from_records(tmp_path: Path) -> None:
    asked = [SentinelRecord(**record("a").model_dump(), asked_after=count) for count in (50, 100)]
    with RunDirectory(tmp_path).locked() as run:
        run.append(record("a"))
        for one in asked:
            run.append_sentinel(one)
    again = RunDirectory(tmp_path)
    assert list(again.sentinel_records("bf16")) == asked
    assert [one.purpose for one in asked] == ["sentinel", "sentinel"]
    assert len(list(again.records("bf16"))) == 1
    assert list(again.sentinel_records("fp8")) == []


def test_records_are_on_disk_at_once(tmp_path: Path) -> None:
    with RunDirectory(tmp_path).locked() as run:
        run.append(record("a"))
        assert len(list(RunDirectory(tmp_path).records("bf16"))) == 1


@pytest.mark.parametrize("torn", ['{"sample_id": "c", "hay', json.dumps(RECORD)])
def test_a_torn_last_line_is_skipped_and_cut_off(tmp_path: Path, torn: str) -> None:
    with RunDirectory(tmp_path).locked() as run:
        run.append(record("a"))
    path = RunDirectory(tmp_path).records_path("bf16")
    with path.open("a") as file:
        file.write(torn)
    assert [r.sample_id for r in RunDirectory(tmp_path).records("bf16")] == ["a"]
    with RunDirectory(tmp_path).locked() as run:
        run.append(record("b"))
        assert [r.sample_id for r in run.records("bf16")] == ["a", "b"]
    assert torn not in path.read_text() or torn == json.dumps(RECORD)
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("torn_bytes", [1, 65_535, 65_536, 65_537, 200_000])
def test_a_torn_line_of_any_length_is_cut_off(tmp_path: Path, torn_bytes: int) -> None:
    with RunDirectory(tmp_path).locked() as run:
        run.append(record("a"))
    path = RunDirectory(tmp_path).records_path("bf16")
    for whole in (path.read_text(), ""):
        path.write_text(whole + "x" * torn_bytes)
        with RunDirectory(tmp_path).locked() as run:
            run.append(record("b"))
        assert path.read_text() == whole + to_json(record("b").model_dump(mode="json")) + "\n"


@pytest.mark.parametrize("line", ["", "no json", "[]", "{}", '{"score": NaN}', '"\\ud800"'])
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    with RunDirectory(tmp_path).locked() as run:
        run.append(record("a"))
    path = RunDirectory(tmp_path).records_path("bf16")
    path.write_text(path.read_text() + line + "\n" + path.read_text())
    with pytest.raises(RunDirectoryError, match=r"bf16\.jsonl:2: "):
        list(RunDirectory(tmp_path).records("bf16"))


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(RunDirectoryError, match=r"samples\.jsonl:1: "):
        list(RunDirectory(tmp_path).samples())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not readable as JSON"),
        ('{"schema_version": 1', "not readable as JSON"),
        ("[" * 100_000, "not readable as JSON"),
        ("[]", "document: "),
        ("{}", "kveval_version: Field required"),
        (json.dumps({"schema_version": SCHEMA_VERSION + 1}), "is newer than this kveval reads"),
        (json.dumps(MANIFEST | {"variants": {"../x": VARIANT}}), r"variants\.\.\./x\.\[key\]: "),
        (json.dumps(MANIFEST | {"variants": {}, "surprise": 1}), "surprise: Extra inputs"),
    ],
)
def test_broken_manifests_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(RunDirectoryError, match=message) as caught:
        RunDirectory(tmp_path).read_manifest()
    assert str(tmp_path / "manifest.json") in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_folder_without_manifest_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"not a run directory \(it has no manifest\.json\)"):
        RunDirectory(tmp_path / "nowhere").read_manifest()
    (tmp_path / "load.json").write_text("{}")
    with pytest.raises(RunDirectoryError, match=r"holds a load measurement alone \(load\.json\)"):
        RunDirectory(tmp_path).read_manifest()


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    writing = rf"another sweep \(process {os.getpid()}\) is writing here"
    with RunDirectory(tmp_path).locked(), pytest.raises(RunDirectoryError, match=writing):
        RunDirectory(tmp_path).locked().__enter__()
    with RunDirectory(tmp_path).locked():
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from kveval.run.directory import RunDirectory\n"
        "with RunDirectory(pathlib.Path(sys.argv[1])).locked():\n    os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    with RunDirectory(tmp_path).locked():
        pass


def test_what_a_sweep_may_write_into(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.check_usable(resume=False)
    run.check_usable(resume=True)
    with run.locked():
        run.check_usable(resume=False)
        run.write_manifest(manifest())
    run.check_usable(resume=True)
    with pytest.raises(RunDirectoryError, match=r"holds a run already; use: .* or --resume"):
        run.check_usable(resume=False)


def test_an_out_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = RunDirectory(tmp_path / "file")
    with pytest.raises(RunDirectoryError, match="is a file; use: an empty or new folder"):
        run.check_usable(resume=False)
    with pytest.raises(StorageError, match="not writable"):
        run.locked().__enter__()
    with pytest.raises(StorageError, match="not writable"):
        RunDirectory(tmp_path / "file" / "below").locked().__enter__()


_UNTIL_FULL = """
import json, pathlib, resource, sys
from kveval.errors import StorageError
from kveval.run.records import Record
from kveval.run.directory import RunDirectory
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
written = 0
try:
    with RunDirectory(pathlib.Path(sys.argv[1])).locked() as run:
        for number in range(100):
            run.append(Record.model_validate(json.loads(sys.argv[3]) | {"sample_id": str(number)}))
            written += 1
except StorageError as error:
    print(written, error)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limit of file sizes here")
def test_a_disk_that_takes_half_a_record_keeps_the_whole_ones(tmp_path: Path) -> None:
    """A real write that stops in the middle: the kernel takes what fits, then refuses."""
    line = len(record("0").model_dump_json())
    arguments = [sys.executable, "-c", _UNTIL_FULL, str(tmp_path), str(line * 7 // 2), json.dumps(RECORD)]
    result = subprocess.run(arguments, capture_output=True, text=True, check=True)
    written, _, message = result.stdout.strip().partition(" ")
    assert int(written) in (2, 3)
    assert "records/bf16.jsonl: not writable (File too large)" in message
    text = RunDirectory(tmp_path).records_path("bf16").read_text()
    assert text.endswith("\n")
    assert [json.loads(line)["sample_id"] for line in text.splitlines()] == [str(n) for n in range(int(written))]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_a_storage_error(tmp_path: Path) -> None:
    with RunDirectory(tmp_path).locked() as run:
        run.records_path("bf16").symlink_to("/dev/full")
        with pytest.raises(StorageError, match="the disk is full"):
            run.append(record("a"))


def test_parquet_holds_the_last_record_of_every_sample(tmp_path: Path) -> None:
    with RunDirectory(tmp_path).locked() as run:
        run.append(record("a", score=0.0, outcome="wrong"))
        expected = {"score": 0.5, "unit": "probability", "temperature": 1.0, "parts": {"value": 0.5}}
        run.append(record("a", output_token_ids=[1, 2], metrics={"ruler": 0.5}, expected=expected))
        run.append(record("a", variant="fp8", error={"kind": "timeout", "message": "slow"}))
        path = run.write_parquet(["bf16", "fp8", "int8"])
    frame = pd.read_parquet(path)
    assert list(frame.columns) == list(Record.model_fields)
    assert frame["variant"].tolist() == ["bf16", "fp8"]
    assert frame["output_token_ids"].map(list).tolist() == [[1, 2], []]
    assert frame["metrics"].map(json.loads).tolist() == [{"ruler": 0.5}, {}]
    assert json.loads(frame["error"][1])["kind"] == "timeout"
    assert json.loads(frame["expected"][0])["parts"] == {"value": 0.5}
    assert frame["expected"].isna().tolist() == [False, True]


def test_parquet_of_a_run_without_answers(tmp_path: Path) -> None:
    with RunDirectory(tmp_path).locked() as run:
        path = run.write_parquet(["bf16"])
    assert len(pd.read_parquet(path)) == 0


def test_a_record_of_another_variant_is_no_evidence(tmp_path: Path) -> None:
    with RunDirectory(tmp_path / "run").locked() as run:
        run.write_manifest(manifest())
        run.append(record("a", variant="bf16"))
    run.records_path("bf16").rename(run.records_path("fp8"))
    with pytest.raises(RunDirectoryError, match=r"fp8\.jsonl: holds a record of variant 'bf16' .*; use: only records"):
        list(run.records("fp8"))
