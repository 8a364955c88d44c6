from __future__ import annotations

from pathlib import Path

import pytest

from kveval.api.machine.gpus import list_gpus

H200 = "0, GPU-aaaa-1, 575.57.08, Disabled, 143771, 143000, NVIDIA H200"
SECOND = "1, GPU-bbbb-2, 575.57.08, [N/A], 24564, 1024, NVIDIA RTX 4090, of a kind"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An nvidia-smi that lists two GPUs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return says(tmp_path / "nvidia-smi", H200, SECOND)


def says(path: Path, *lines: str, code: int = 0) -> Path:
    path.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines) + f"exit {code}\n")
    path.chmod(0o755)
    return path


@pytest.mark.usefixtures("smi")
def test_gpus_are_read_with_their_memory() -> None:
    first, second = list_gpus()
    assert (first.index, first.driver, first.name) == ("0", "575.57.08", "NVIDIA H200")
    assert (first.total_bytes, first.free_bytes) == (143771 << 20, 143000 << 20)
    assert second.name == "NVIDIA RTX 4090, of a kind"


@pytest.mark.usefixtures("smi")
@pytest.mark.parametrize(("chosen", "indices"), [("1", ["1"]), ("GPU-aaaa", ["0"]), ("", []), ("0,1", ["0", "1"])])
def test_only_those_that_may_be_used(chosen: str, indices: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert [gpu.index for gpu in list_gpus()] == indices


@pytest.mark.parametrize(
    "line", ["0, GPU-a, 1, [N/A], [N/A], [N/A], NVIDIA GB10", "0, GPU-a, 1, Enabled, 143771, 143000, NVIDIA H200"]
)
def test_memory_that_is_shared_or_divided_is_not_known(line: str, smi: Path) -> None:
    says(smi, line)
    (gpu,) = list_gpus()
    assert (gpu.total_bytes, gpu.free_bytes) == (None, None)


def test_no_driver_and_one_that_fails(smi: Path) -> None:
    says(smi, "NVIDIA-SMI has failed", code=9)
    assert list_gpus() == []
    says(smi, "No devices were found")
    assert list_gpus() == []
    smi.unlink()
    assert list_gpus() == []
