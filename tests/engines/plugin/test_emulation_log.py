from __future__ import annotations

import pytest
from hypothesis import given
from support.emulation import INT8, specs

from kveval.engines.plugin.emulation import EmulationSpec
from kveval.engines.plugin.emulation_log import (
    EmulationFacts,
    live_line,
    parse_log,
    refused_line,
    requested_line,
)

LOG_START = "(Worker pid=7) INFO 11-29 17:05:45 [emulation.py:151] "


@given(specs)
def test_a_spec_survives_the_log(spec: EmulationSpec) -> None:
    assert parse_log(f"{LOG_START}{requested_line(spec)}\n").requested == spec


def test_a_silent_log_says_nothing() -> None:
    facts = parse_log("INFO Using CPU_ATTN backend.\nINFO CPU KV cache size: 1,024 tokens\n")

    assert facts == EmulationFacts()
    assert not facts.is_live


def test_announced_is_not_live() -> None:
    facts = parse_log(f"{LOG_START}kveval emulation: rounding K and V to int8 per_token_head, all layers\n")

    assert facts == EmulationFacts(requested=INT8)
    assert not facts.is_live


def test_a_live_log_carries_its_evidence() -> None:
    lines = [requested_line(INT8), live_line(0, 61, 3.9e-3, 4.1e-3), "kveval emulation: first step rounded 30 layers"]
    facts = parse_log("".join(f"{LOG_START}{line}\n" for line in lines))

    assert lines[1] == "kveval emulation: live, layer 0, 61 tokens, relative error K 3.900e-03 V 4.100e-03"
    assert facts == EmulationFacts(requested=INT8, relative_error_k=3.9e-3, relative_error_v=4.1e-3)
    assert facts.is_live


@pytest.mark.parametrize("error_v", [0.0, float("nan")])
def test_rounding_that_changed_nothing_is_not_live(error_v: float) -> None:
    assert not parse_log(live_line(0, 61, 3.9e-3, error_v)).is_live


def test_the_weakest_worker_counts() -> None:
    log = "\n".join([live_line(0, 61, 4e-3, 4e-3), live_line(0, 61, 4e-3, 0.0)])

    assert not parse_log(log).is_live


def test_a_refusal_stands_on_one_line() -> None:
    line = refused_line("cannot emulate int8 on top of\nkv_cache_dtype 'fp8'")

    assert line == "kveval emulation: refused, cannot emulate int8 on top of kv_cache_dtype 'fp8'"
