"""What the emulation of one variant asks of all launches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.model_configs import DENSE
from support.variants import CPU, GPU, resolved, variant

from kveval.engines.base import Installation
from kveval.engines.emulation import check_eager, check_emulated, eager_for, emulation_findings
from kveval.engines.variants import Device, ResolvedVariant
from kveval.errors import PlanError
from kveval.models.checkpoint import Model, read_model

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


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Model]:
    def made(**config: Any) -> Model:
        (tmp_path / "config.json").write_text(json.dumps({**DENSE, **config}))
        return read_model(tmp_path)

    return made


HERE = Installation((), GPU, has_emulation=True)


def emulated(**emulate: Any) -> ResolvedVariant:
    return variant("mine", device=GPU, emulate={"format": "int8", **emulate})


def test_what_is_emulated(model: Callable[..., Model]) -> None:
    check_emulated(emulated(layers=[0, 3]), model(), HERE, {})
    check_emulated(emulated(granularity="per_head"), model(), HERE, {"data-parallel-size": 1})
    check_emulated(emulated(), model(), HERE, {"data-parallel-size": 2})
    check_emulated(emulated(granularity="per_tensor", scale=0.1), model(), HERE, {"data-parallel-size": 2})
    # What kveval cannot read, the engine's log shows.
    check_emulated(emulated(layers=[3]), model(hidden_size="left out"), HERE, {})
    check_emulated(variant("fp8", device=GPU), model(**LATENT), HERE, {})


LATENT = {"model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": 64}


@pytest.mark.parametrize(
    ("emulate", "config", "flags", "message"),
    [
        ({}, LATENT, {}, r"variants\.mine\.emulate: the model stores latent \(MLA\) vectors"),
        ({"layers": [4]}, {}, {}, r"variants\.mine\.emulate\.layers: 4 is not a layer of the model; use: 0 to 3"),
        (
            {"layers": [0, 2]}, {"layer_types": [*["full_attention"] * 2, "linear_attention", "full_attention"],
             "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_num_value_heads": 2,
             "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4},
            {}, r"emulate\.layers: layer 2 stores no K and V of its own; use: some of 0 1 3",
        ),
        (
            {"granularity": "per_head"}, {}, {"data-parallel-size": 2},
            "int8 per_head takes its scales from the first request, and data-parallel-size divides .*; use per_token",
        ),
    ],
)  # fmt: skip
def test_what_would_not_round_is_refused(
    model: Callable[..., Model], emulate: Any, config: Any, flags: Any, message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        check_emulated(emulated(**emulate), model(**config), HERE, flags)


@pytest.mark.parametrize(
    ("kind", "flags", "backend"),
    [
        ("rocm", {}, "ROCM_ATTN"),
        ("rocm", {"attention-backend": "ROCM_AITER_FA"}, "ROCM_AITER_FA"),
        ("rocm", {"attention-backend": "TRITON_ATTN"}, None),
        ("rocm", {"attention-backend": "ROCM_AITER_UNIFIED_ATTN"}, None),
        ("cuda", {}, None),
        ("cuda", {"attention-backend": "FLASH_ATTN_DIFFKV"}, "FLASH_ATTN_DIFFKV"),
    ],
)
def test_a_backend_that_reads_what_it_has_not_stored_is_refused(
    model: Callable[..., Model], kind: str, flags: dict[str, Any], backend: str | None
) -> None:
    here = Installation((), Device(kind), has_emulation=True)
    if backend is None:
        check_emulated(emulated(), model(), here, flags)
        return
    with pytest.raises(
        PlanError, match=rf"attention backend {backend} reads; use: attention-backend TRITON_ATTN in engine"
    ):
        check_emulated(emulated(), model(), here, flags)


def test_emulation_needs_the_plugin(model: Callable[..., Model]) -> None:
    with pytest.raises(PlanError, match=r"variants\.mine: emulation needs kveval's plugin"):
        check_emulated(emulated(), model(), Installation((), GPU), {})


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
