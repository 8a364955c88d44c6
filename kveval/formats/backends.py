"""Which attention backend of vLLM stores which cache dtype, on which device.

Read from vLLM 0.32: ``supported_kv_cache_dtypes``, ``supports_head_size``, ``supports_compute_capability`` and
``supports_combination`` of each backend (vllm/v1/attention/backends), in the order in which vLLM tries them
(`_get_backend_priorities` in vllm/platforms/cuda.py, `get_attn_backend_cls` in vllm/platforms/cpu.py). Backends that
store nothing that one of these does not store are left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

Storage = Literal["heads", "latent", "sparse latent"]

GENERATIONS = ("ampere", "ada", "hopper", "blackwell", "blackwell-rtx")
"""NVIDIA GPUs by compute capability: 8.0 and 8.6, 8.9, 9.0, 10.x, 12.x."""

BATCH_INVARIANT = ("FLASH_ATTN", "TRITON_ATTN", "FLEX_ATTENTION", "FLASH_ATTN_MLA", "TRITON_MLA")
"""Backends that compute a request alike in every batch (`supports_batch_invariance`)."""

READ_AS_E4M3 = {"rocm": ("fp8_e5m2",)}
"""What vLLM stores as asked and then reads as e4m3, by platform (`fp8_dtype` in vllm/platforms/rocm.py)."""

DEVICES = ("gpu", "cpu", *GENERATIONS)
"""What ``--device`` takes. ``gpu`` is an NVIDIA GPU of any generation."""

_WITH_FP8 = GENERATIONS[1:]
_PLAIN = ("bfloat16", "float16")
_FP8 = ("fp8", "fp8_e4m3")
_FLASHINFER_HEADS = (64, 128, 256, 512)
_CPU_HEADS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a layer stores of one token.

    Attributes:
        head_dim: values of K per head, or of the latent vector.
        head_dim_v: values of V per head; 0 in a latent layer.
    """

    storage: Storage
    head_dim: int
    head_dim_v: int


@dataclass(frozen=True, slots=True)
class Support:
    """Cache dtypes that a backend stores on some devices.

    Attributes:
        head_sizes: the sizes of K that it takes; None = every one between `least` and `most`.
        multiple: the size of K is a multiple of it.
        takes_unequal: whether V may have another size than K. Such backends take no equal sizes.
        stored_as: the dtype whose layout the cache really gets, where it is another.
    """

    backend: str
    storage: Storage
    devices: tuple[str, ...]
    dtypes: tuple[str, ...]
    head_sizes: tuple[int, ...] | None = None
    least: int = 1
    most: int = 1 << 20
    multiple: int = 1
    takes_unequal: bool = False
    stored_as: str | None = None

    def takes(self, dtype: str, shape: Shape, device: str) -> bool:
        """Whether it stores layers of `shape` in `dtype` on `device`, one of `GENERATIONS` or ``cpu``."""
        if self.storage != shape.storage or device not in self.devices or dtype not in self.dtypes:
            return False
        if shape.storage == "heads" and self.takes_unequal != (shape.head_dim != shape.head_dim_v):
            return False
        if self.head_sizes is not None:
            return shape.head_dim in self.head_sizes
        return self.least <= shape.head_dim <= self.most and shape.head_dim % self.multiple == 0


SUPPORT = (
    # FP8 needs FlashAttention 3 on SM90 or 4 on SM100 (flash_attn.py).
    Support("FLASH_ATTN", "heads", GENERATIONS, _PLAIN, multiple=8, most=256),
    Support("FLASH_ATTN", "heads", ("hopper", "blackwell"), _FP8, multiple=8, most=256),
    Support("FLASHINFER", "heads", GENERATIONS, (*_PLAIN, *_FP8), _FLASHINFER_HEADS),
    # On SM100 it fails with an assertion when it is first asked.
    Support("FLASHINFER", "heads", ("ampere", "ada", "hopper", "blackwell-rtx"), ("fp8_e5m2",), _FLASHINFER_HEADS),
    # Without the kernels of SM100 it misreads heads of 64 values, and has no search for scales (flashinfer.py).
    Support("FLASHINFER", "heads", ("ampere", "ada", "hopper", "blackwell-rtx"), ("nvfp4",), (128, 256, 512)),
    Support("FLASHINFER", "heads", ("blackwell",), ("nvfp4", "nvfp4_4over6"), _FLASHINFER_HEADS),
    Support("TRITON_ATTN", "heads", GENERATIONS, (*_PLAIN, "int8_per_token_head", "int4_per_token_head"), least=32),
    # "native FP8 (fp8e4nv) requires SM89+" (triton_attn.py, triton_mla.py). Its fp8_e5m2 fails with an assertion.
    Support("TRITON_ATTN", "heads", _WITH_FP8, (*_FP8, "fp8_per_token_head"), least=32),
    Support("FLEX_ATTENTION", "heads", GENERATIONS, _PLAIN),
    # Only models that ask for them get them: MiMo-V2 (vllm/model_executor/models/mimo_v2.py).
    Support("FLASH_ATTN_DIFFKV", "heads", GENERATIONS, _PLAIN, multiple=8, most=256, takes_unequal=True),
    Support("TRITON_ATTN_DIFFKV", "heads", GENERATIONS, ("bfloat16",), least=32, takes_unequal=True),
    Support("TRITON_ATTN_DIFFKV", "heads", _WITH_FP8, _FP8, least=32, takes_unequal=True),
    Support("CPU_ATTN", "heads", ("cpu",), (*_PLAIN, *_FP8, "fp8_e5m2"), _CPU_HEADS),

    Support("TRITON_MLA", "latent", GENERATIONS, _PLAIN),
    Support("TRITON_MLA", "latent", _WITH_FP8, _FP8),
    Support("CPU_MLA", "latent", ("cpu",), _PLAIN, (576,)),

    Support("FLASH_ATTN_MLA_SPARSE", "sparse latent", ("hopper",), _PLAIN),
    # `_canonicalize_sparse_mla_kv_cache_dtype` in vllm/model_executor/layers/attention/mla_attention.py.
    Support("FLASHMLA_SPARSE", "sparse latent", ("hopper",), ("fp8",), (576,), stored_as="fp8_ds_mla"),
    Support("FLASHMLA_SPARSE", "sparse latent", ("hopper", "blackwell"), ("fp8_ds_mla",), (576,)),
    Support("FLASHMLA_SPARSE", "sparse latent", ("blackwell",), ("nvfp4_ds_mla",), (576,)),
    Support("FLASHINFER_MLA_SPARSE_SM90", "sparse latent", ("hopper",), _FP8, (512, 576)),
    Support("FLASHINFER_MLA_SPARSE", "sparse latent", ("blackwell",), (*_PLAIN, *_FP8), (512, 576)),
    # bfloat16 becomes auto for these models (`DeepseekV32ForCausalLM` in vllm/model_executor/models/config.py).
    Support(
        "FLASHINFER_MLA_SPARSE_SM120", "sparse latent", ("blackwell-rtx",), ("bfloat16", *_FP8, "fp8_ds_mla"), (576,),
        stored_as="fp8_ds_mla",
    ),
)  # fmt: skip


def devices_of(device: str) -> tuple[str, ...]:
    """Return the devices that a value of ``--device`` stands for: every generation for ``gpu``."""
    return GENERATIONS if device == "gpu" else (device,)


def generation_of(architecture: str | None) -> str | None:
    """Return the one of `GENERATIONS` that a GPU such as ``sm_90`` is of; None for any other."""
    capability = re.fullmatch(r"sm_(\d+)(\d)", architecture or "")
    if capability is None:
        return None
    major, minor = int(capability[1]), int(capability[2])
    if major == 8:
        return "ada" if minor == 9 else "ampere"
    return {9: "hopper", 10: "blackwell", 12: "blackwell-rtx"}.get(major)


def stores_fnuz(architecture: str | None) -> bool:
    """Whether FP8 is e4m3fnuz on this GPU: on AMD's gfx94, such as an MI300 (`is_fp8_fnuz`, vllm/platforms/rocm.py)."""
    return architecture is not None and "gfx94" in architecture


def stored_dtype(dtype: str, shape: Shape, device: str, backends: Collection[str] | None = None) -> str | None:
    """Return the dtype that layers of `shape` really get on `device`; None where no backend takes `dtype`.

    Args:
        backends: those that may be taken; None = all.
    """
    for support in SUPPORT:
        if (backends is None or support.backend in backends) and support.takes(dtype, shape, device):
            return support.stored_as or dtype
    return None


def is_stored_on(dtype: str, device: str, backend: str | None = None) -> bool:
    """Whether a backend on `device` stores some layer in `dtype`; only `backend`, where one is given."""
    return any(
        dtype in support.dtypes and device in support.devices and backend in (None, support.backend)
        for support in SUPPORT
    )


def is_listed(dtype: str, backend: str | None = None) -> bool:
    """Whether `SUPPORT` says which backends store `dtype`, and what `backend` stores."""
    return any(dtype in support.dtypes for support in SUPPORT) and (
        backend is None or any(backend == support.backend for support in SUPPORT)
    )


def is_stored_as(dtype: str, stored: str) -> bool:
    """Whether a backend takes `dtype` and gives the cache the layout of `stored` instead."""
    return any(dtype in support.dtypes and support.stored_as == stored for support in SUPPORT)
