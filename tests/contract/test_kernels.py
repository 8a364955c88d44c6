"""vLLM's GPU kernels for 8-bit caches, run by Triton's interpreter, beside kveval's emulation of these formats."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest
from support import ROOT

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment"),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no Triton in this environment"),
]


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from benchmarks import kernels
    finally:
        sys.path.pop(0)
    return kernels.measure()


def test_int8_is_stored_as_it_is_emulated(figures: dict[str, Any]) -> None:
    int8 = figures["int8"]
    assert (int8["values"], int8["equal_codes"], int8["equal_scales"]) == (24576, 1.0, True)


def test_fp8_is_stored_as_it_is_emulated_but_for_what_the_interpreter_loses(figures: dict[str, Any]) -> None:
    fp8 = figures["fp8_e4m3"]
    assert (fp8["other_codes"], fp8["equal_scales"]) == (0, True)
    lost = fp8["lost_carries"] + fp8["ties_away"]
    assert lost < (0.03 if figures["interpreted"] else 1e-9)


@pytest.mark.parametrize("name", ["int8", "fp8_e4m3"])
def test_attention_reads_what_emulated_attention_reads(figures: dict[str, Any], name: str) -> None:
    attention = figures[name]["attention"]
    assert attention["ours"] > 1e-4
    assert attention["between"] < attention["ours"] / 100
