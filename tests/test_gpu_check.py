"""scripts/gpu-check with scripted engines: what it writes down, and what it leaves out."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import ROOT
from support.commands import answer_sweeps, use_installation
from support.scripted import ScriptedEngines

from kveval.engines.base import Installation
from kveval.engines.variants import Device
from kveval.errors import UsageError


@pytest.fixture
def gpu_check(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import gpu_check

    yield gpu_check
    for name in [name for name in sys.modules if name.partition(".")[0] == "gpu_check"]:
        del sys.modules[name]


@pytest.fixture
def engines(
    stand_in: None, installation: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpu_check: Any
) -> ScriptedEngines:
    use_installation(monkeypatch, installation)
    monkeypatch.setattr(gpu_check, "find_installation", lambda _: installation)
    monkeypatch.chdir(tmp_path)
    return answer_sweeps(monkeypatch)


def test_every_dtype_of_the_device_is_launched_with_its_control(
    gpu_check: Any, engines: ScriptedEngines, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = gpu_check.main(["--model", str(checkpoint), "--out", "out"])
    document = json.loads(Path("out/gpu-check.json").read_text())
    checks = {check["name"]: check for check in document["checks"]}
    for name in ("fp8", "fp8_e5m2"):
        assert f"launches {name}" in checks
        assert f"emulates {name}-control" in checks
    assert checks["memory is released between launches"]["status"] == "ok"
    assert "20 of 20 answers are the baseline's" in checks["answers of baseline-aa"]["said"]
    assert "launches fp8_e4m3" not in checks  # the same by another name
    # Scripted engines cannot be forced, and the page does not hide it.
    assert checks["forces outputs of fp8"]["status"] == "failed"
    assert code == 1
    printed = capsys.readouterr().out
    page = Path("out/gpu-check.html").read_text()
    assert "failed   forces outputs of fp8: " in printed
    assert "emulates fp8-control" in page
    for text in (page, json.dumps(document)):
        assert str(checkpoint.parent) not in text


def test_a_dtype_that_is_refused_is_skipped_with_its_reason(gpu_check: Any, installation: Installation) -> None:
    old = dataclasses.replace(installation, device=Device("cpu", frozenset({"avx2"})))
    with pytest.MonkeyPatch.context() as patch:
        use_installation(patch, old)
        wanted = gpu_check.what_to_sweep(old, "smollm2", ["fp8"])
    assert "needs AVX-512" in wanted.refused["fp8"]
    assert [variant["name"] for variant in wanted.config["variants"]] == ["baseline", "int8-emulated"]


def test_a_dtype_that_does_not_exist_is_an_error(gpu_check: Any, installation: Installation) -> None:
    with pytest.raises(UsageError, match="--dtypes: 'fp9' is no quantized cache dtype here; use: fp8, "):
        gpu_check.what_to_sweep(installation, "smollm2", ["fp9"])
