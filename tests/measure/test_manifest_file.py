"""Every change of a run is in its manifest at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.make_run import make_run, make_samples, scored
from support.variants import variant

from kveval.measure.manifest_file import ManifestFile
from kveval.run.directory import RunDirectory


@pytest.fixture
def file(tmp_path: Path) -> Iterator[ManifestFile]:
    path = make_run(
        tmp_path / "run", samples=make_samples(haystacks=1), answers={"bf16": scored(1), "fp8": scored(1)},
        variants={"fp8": {"status": "running"}}, manifest={"status": "running"},
    )  # fmt: skip
    with RunDirectory(path).locked() as run:
        yield ManifestFile(run, run.read_manifest())


def stored(file: ManifestFile, tmp_path: Path) -> bool:
    return RunDirectory(tmp_path / "run").read_manifest() == file.manifest


def test_a_change_of_one_variant_is_written_and_leaves_the_others(file: ManifestFile, tmp_path: Path) -> None:
    before = file.baseline
    file.update(variant("fp8"), status="refused", reason="no backend")
    assert file.of(variant("fp8")).reason == "no backend"
    assert file.baseline == before
    assert stored(file, tmp_path)


def test_a_variant_that_still_runs_at_the_end_was_interrupted(file: ManifestFile, tmp_path: Path) -> None:
    file.finish()
    fp8 = file.manifest.variants["fp8"]
    assert (fp8.status, fp8.reason, file.manifest.status) == ("stopped", "interrupted", "incomplete")
    assert file.manifest.finished is not None
    assert stored(file, tmp_path)


def test_a_run_is_complete_if_every_variant_is(file: ManifestFile) -> None:
    file.update(variant("fp8"), status="complete")
    file.finish()
    assert file.manifest.status == "complete"
