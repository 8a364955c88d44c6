"""What the emulation of one variant asks of all launches."""

from __future__ import annotations

from typing import Any

import pytest
from support.variants import CPU, GPU, resolved

from kveval.engines.emulation import check_eager, eager_for, emulation_findings
from kveval.engines.variants import Device
from kveval.errors import PlanError

MINE = {"name": "mine", "emulate": {"format": "int4"}}
UNKNOWN = Device(None)


@pytest.mark.parametrize(
    ("variants", "device", "eager"),
    [
        (("fp8", MINE), GPU, "mine"),
        (("fp8",), GPU, None),
        (("int8",), GPU, None),
        (("fp8", MINE), CPU, None),
        (("fp8", MINE), UNKNOWN, "mine"),
    ],
)
def test_every_server_runs_eager_where_one_is_emulated(
    variants: tuple[Any, ...], device: Device, eager: str | None
) -> None:
    found = resolved(*variants, device=device)
    one = eager_for(found, device)
    assert (one.name if one else None) == eager
    findings = emulation_findings(found, device)
    assert [finding.code for finding in findings] == (["eager_for_emulation"] if eager else [])


def test_graphs_beside_an_emulated_variant_are_refused() -> None:
    variants = resolved("fp8", MINE, device=GPU)
    flags: dict[str, dict[str, Any]] = {variant.name: {} for variant in variants}
    check_eager(variants, GPU, flags)
    flags["fp8"] = {"enforce-eager": False}
    with pytest.raises(
        PlanError, match=r"variants\.fp8: enforce-eager: false .* mine is emulated.*; use: enforce-eager"
    ):
        check_eager(variants, GPU, flags)
    check_eager(resolved("fp8", device=GPU), GPU, flags)
    check_eager(variants, CPU, flags)
