"""What each backend stores."""

from __future__ import annotations

import pytest

from kveval.formats.backends import (
    DEVICES,
    GENERATIONS,
    SUPPORT,
    Shape,
    Support,
    devices_of,
    generation_of,
    is_listed,
    is_stored_as,
    is_stored_on,
    stored_dtype,
)
from kveval.formats.registry import CACHE_DTYPES

HEADS = Shape("heads", 128, 128)
LATENT = Shape("latent", 576, 0)
SPARSE = Shape("sparse latent", 576, 0)


@pytest.mark.parametrize("support", SUPPORT, ids=lambda support: f"{support.backend}-{support.dtypes[0]}")
def test_an_entry_is_consistent(support: Support) -> None:
    assert set(support.dtypes) <= set(CACHE_DTYPES)
    assert set(support.devices) <= {*GENERATIONS, "cpu"}
    assert support.stored_as is None or support.stored_as in CACHE_DTYPES


@pytest.mark.parametrize(
    ("dtype", "shape", "devices"),
    [
        ("bfloat16", HEADS, GENERATIONS),
        ("fp8", HEADS, GENERATIONS),
        ("int8_per_token_head", HEADS, GENERATIONS),
        ("fp8_per_token_head", HEADS, GENERATIONS[1:]),
        ("nvfp4", HEADS, GENERATIONS),
        ("nvfp4_4over6", HEADS, ("blackwell",)),
        # FlashInfer takes heads whose size is a power of two; Triton stores FP8 from SM89 on.
        ("fp8", Shape("heads", 96, 96), GENERATIONS[1:]),
        ("nvfp4", Shape("heads", 96, 96), ()),
        ("nvfp4", Shape("heads", 192, 192), ()),
        ("nvfp4", Shape("heads", 64, 64), ("blackwell",)),
        ("fp8_e5m2", Shape("heads", 80, 80), ()),
        ("int8_per_token_head", Shape("heads", 80, 80), GENERATIONS),
        ("int8_per_token_head", Shape("heads", 16, 16), ()),
        ("bfloat16", Shape("heads", 20, 20), GENERATIONS),
        # MiMo-V2: K of 192 values, V of 128
        ("fp8", Shape("heads", 192, 128), GENERATIONS[1:]),
        ("int8_per_token_head", Shape("heads", 192, 128), ()),
        ("bfloat16", LATENT, GENERATIONS),
        ("fp8", LATENT, GENERATIONS[1:]),
        ("int8_per_token_head", LATENT, ()),
        ("fp8_ds_mla", LATENT, ()),
        ("bfloat16", SPARSE, ("hopper", "blackwell", "blackwell-rtx")),
        ("fp8_ds_mla", SPARSE, ("hopper", "blackwell", "blackwell-rtx")),
        ("nvfp4_ds_mla", SPARSE, ("blackwell",)),
        ("int4_per_token_head", SPARSE, ()),
    ],
)
def test_where_a_dtype_is_stored(dtype: str, shape: Shape, devices: tuple[str, ...]) -> None:
    assert tuple(one for one in GENERATIONS if stored_dtype(dtype, shape, one)) == devices


@pytest.mark.parametrize(
    ("dtype", "device", "stored"),
    [
        ("fp8", "hopper", "fp8_ds_mla"),
        ("fp8", "blackwell", "fp8"),
        ("fp8", "blackwell-rtx", "fp8_ds_mla"),
        # Only the name fp8 is in FLASHMLA_SPARSE's list: another backend takes this one, as it is.
        ("fp8_e4m3", "hopper", "fp8_e4m3"),
        ("bfloat16", "blackwell-rtx", "fp8_ds_mla"),
        ("fp8", "ampere", None),
        ("fp8", "cpu", None),
    ],
)
def test_sparse_latent_layers_are_stored_otherwise(dtype: str, device: str, stored: str | None) -> None:
    assert stored_dtype(dtype, SPARSE, device) == stored


def test_what_a_cpu_stores() -> None:
    assert [name for name in CACHE_DTYPES if is_stored_on(name, "cpu")] == [
        "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2",
    ]  # fmt: skip
    assert stored_dtype("fp8", HEADS, "cpu") == "fp8"
    assert stored_dtype("fp8", LATENT, "cpu") is None
    assert stored_dtype("bfloat16", LATENT, "cpu") == "bfloat16"


def test_devices() -> None:
    assert devices_of("gpu") == GENERATIONS
    assert devices_of("hopper") == ("hopper",)
    assert {one for name in DEVICES for one in devices_of(name)} == {*GENERATIONS, "cpu"}


def test_what_is_stored_as_something_else() -> None:
    assert is_stored_as("fp8", "fp8_ds_mla")
    assert not is_stored_as("fp8", "nvfp4_ds_mla")
    assert not is_stored_as("int8_per_token_head", "fp8_ds_mla")


@pytest.mark.parametrize(
    ("architecture", "generation"),
    [("sm_80", "ampere"), ("sm_86", "ampere"), ("sm_89", "ada"), ("sm_90", "hopper"), ("sm_100", "blackwell"),
     ("sm_103", "blackwell"), ("sm_120", "blackwell-rtx"), ("sm_75", None), ("gfx942", None), (None, None)],
)  # fmt: skip
def test_generations_of_gpus(architecture: str | None, generation: str | None) -> None:
    assert generation_of(architecture) == generation


def test_what_the_table_can_tell() -> None:
    assert is_listed("fp8")
    assert is_listed("fp8", "TRITON_ATTN")
    assert not is_listed("fp8", "MINE")
    assert not is_listed("turboquant_4bit_nc")
    assert is_stored_on("fp8_e5m2", "hopper")
    assert not is_stored_on("fp8_e5m2", "hopper", "TRITON_ATTN")
