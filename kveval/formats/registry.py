"""Every cache dtype that kveval knows: what it stores, where, and how kveval emulates it.

To add one, add an entry to `_ENTRIES`, with a codec if kveval is to emulate it. The configuration, planning, memory,
emulation, engine facts and the report all read these entries.

Read from vLLM 0.32 and 0.33: names from ``CacheDType`` (vllm/config/cache.py), scales from
vllm/model_executor/layers/quantization/kv_cache.py and the store of each backend. `kveval.formats.backends` says which
backend stores what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kveval.errors import nearest
from kveval.formats.cache_dtype import CacheDtype, FixedLayout, Layout, Rounding
from kveval.formats.codec import FP8_E4M3, FP8_E4M3FNUZ, FP8_E5M2, INT2, INT4, INT8, Codec

_EMULATED_ONLY = "kveval only emulates it: a bfloat16 cache stores the rounded numbers and saves no memory"
_PER_HEAD = "float32 per token and head"

_FP8_E5M2 = CacheDtype(
    "fp8_e5m2", 8, "per_tensor", "per tensor",
    rounding=Rounding(FP8_E5M2, "per_tensor", 1.0), layout=Layout(8), latent=Layout(8),
)  # fmt: skip
_FP8_E4M3 = replace(
    _FP8_E5M2, name="fp8_e4m3",
    rounding=Rounding(FP8_E4M3, "per_tensor", 1.0),
)  # fmt: skip
# `customize_spec` of TritonAttentionBackend (vllm/v1/attention/backends/triton_attn.py): K and V have one scale each.
# MLACommonBackend can size a latent vector with two scales, but no backend for latent caches takes these dtypes.
_INT8_PER_TOKEN_HEAD = CacheDtype(
    "int8_per_token_head", 8, "dynamic", _PER_HEAD, aliases=("int8",),
    rounding=Rounding(INT8), layout=Layout(8, 4), is_common=True,
)  # fmt: skip
# `nvfp4_kv_cache_full_dim` in vllm/utils/torch_utils.py. The scales of blocks are computed. One more scale per tensor
# comes from the checkpoint, else it is 1.0 (`do_kv_cache_update` in vllm/v1/attention/backends/flashinfer.py).
_NVFP4 = CacheDtype(
    "nvfp4", 4, "dynamic", "FP8 per 16 values",
    layout=Layout(4, 1, 16), is_common=True,
)  # fmt: skip
# K is rotated, V is uniform (`TurboQuantConfig` in vllm/model_executor/layers/quantization/turboquant/config.py).
# `get_boundary_skip_layers` in the same file names the layers that stay as they are.
_TURBOQUANT_4BIT = CacheDtype(
    "turboquant_4bit_nc", 4, "dynamic", "float16 norm of K, scale and zero of V, per token and head",
    unsized="vLLM leaves the first two and the last two layers of most models unquantized",
)  # fmt: skip

# K is rotated and has 4 bits where it holds rotary values, else 3; V has a code of its own (vllm/v1/attention/ops/
# rocm_octave.py of vLLM 0.33, the first that has it; on AMD's GPUs only).
_OCTAVE = CacheDtype(
    "octave_k3v4",
    3.5,
    "dynamic",
    "float16 per 64 values of K, and of V, per token and head",
    unsized="its bytes depend on how many values of a head are rotary",
)

_ENTRIES = (
    CacheDtype("auto", None, "none", unsized="it is the model's own dtype; name that dtype"),
    CacheDtype("bfloat16", 16, "none", aliases=("bf16",), layout=Layout(16), latent=Layout(16), is_common=True),
    CacheDtype("float16", 16, "none", aliases=("fp16", "f16"), layout=Layout(16), latent=Layout(16)),
    CacheDtype("float32", 32, "none", aliases=("fp32", "f32"), layout=Layout(32), latent=Layout(32), is_in_vllm=False),
    # fp8 is e4m3 on every device of vLLM itself (`CacheConfig.cache_dtype`).
    replace(_FP8_E4M3, name="fp8", same_as="fp8_e4m3", is_common=True),
    _FP8_E4M3,
    _FP8_E5M2,
    CacheDtype("fp8_inc", 8, "per_tensor", "per tensor", unsized="only vLLM's plugin for Gaudi stores it"),
    _INT8_PER_TOKEN_HEAD,
    replace(_INT8_PER_TOKEN_HEAD, name="fp8_per_token_head", aliases=(), rounding=Rounding(FP8_E4M3), is_common=False),
    # It rotates K and V and has a zero point in the four bytes of the scale: no codec here rounds so.
    replace(
        _INT8_PER_TOKEN_HEAD, name="int4_per_token_head", bits=4, aliases=(), rounding=None,
        layout=Layout(4, 4),
    ),
    _NVFP4,
    # It also tries max/4 as the scale of each block.
    replace(_NVFP4, name="nvfp4_4over6", is_common=False),
    # 512 values in FP8 or FP4 with their scales, and 64 rotary values in bfloat16 or FP8: the docstring of
    # vllm/v1/attention/backends/mla/flashmla_sparse.py, and `get_kv_cache_spec` in vllm/model_executor/layers/
    # attention/mla_attention.py.
    CacheDtype(
        "fp8_ds_mla", 8, "dynamic", "inside the layout",
        latent=FixedLayout(576, 656), is_common=True,
    ),
    CacheDtype(
        "nvfp4_ds_mla", 4, "dynamic", "inside the layout", latent=FixedLayout(576, 352)
    ),
    # It casts K to FP8 as it is.
    replace(_TURBOQUANT_4BIT, name="turboquant_k8v4", bits=6, scales="float16 scale and zero of V, per token and head"),
    _TURBOQUANT_4BIT,
    replace(_TURBOQUANT_4BIT, name="turboquant_k3v4_nc", bits=3.5),
    replace(_TURBOQUANT_4BIT, name="turboquant_3bit_nc", bits=3),
    # vllm/v1/attention/ops/ultraquant/format.py; it skips the same layers as TurboQuant (vllm/engine/arg_utils.py).
    replace(
        _TURBOQUANT_4BIT, name="ultraquant_4bit", scales="a power of two per 32 values"
    ),
    _OCTAVE,
    replace(_OCTAVE, name="octave_k3v3", bits=3),
    replace(_OCTAVE, name="octave_k3v3_compact", bits=3, scales="float16 of K and of V, per token and head"),
    CacheDtype(
        "fp8_e4m3fnuz", 8, "per_tensor", "per tensor",
        rounding=Rounding(FP8_E4M3FNUZ, "per_tensor", 1.0), unsized=_EMULATED_ONLY, is_in_vllm=False,
    ),
    CacheDtype("int4", 4, "dynamic", _PER_HEAD, rounding=Rounding(INT4), unsized=_EMULATED_ONLY, is_in_vllm=False),
    CacheDtype("int2", 2, "dynamic", _PER_HEAD, rounding=Rounding(INT2), unsized=_EMULATED_ONLY, is_in_vllm=False),
)  # fmt: skip

CACHE_DTYPES: Mapping[str, CacheDtype] = {entry.name: entry for entry in _ENTRIES}
"""Every cache dtype, by its full name."""

CODECS: Mapping[str, Codec] = {
    entry.rounding.codec.name: entry.rounding.codec for entry in _ENTRIES if entry.rounding is not None
}
"""Every codec, by the name that ``emulate.format`` has in a configuration."""

CPU_DTYPES = tuple(entry.name for entry in _ENTRIES if entry.is_in_vllm and entry.is_native_on_cpu)
"""What vLLM's CPU engine stores. It takes any other dtype as well, and corrupts its cache."""

_BY_ALIAS = {alias: entry for entry in _ENTRIES for alias in entry.aliases}


def find_dtype(name: str) -> CacheDtype | None:
    """Return the cache dtype called `name`, in full or by an alias; None when kveval knows no such dtype."""
    return CACHE_DTYPES.get(name) or _BY_ALIAS.get(name)


def find_codec(name: str) -> Codec:
    """Return the codec called `name`. Raises ValueError: there is none; the message lists the names."""
    if name not in CODECS:
        raise ValueError(f"unknown cache format {name!r}, {nearest(name, CODECS)}")
    return CODECS[name]


def is_unquantized(name: str) -> bool:
    """Whether the cache dtype `name` stores what the model computes. An unknown dtype counts as quantized."""
    return name in CACHE_DTYPES and not CACHE_DTYPES[name].is_quantized


def is_model_dtype(name: str) -> bool:
    """Whether the cache dtype `name` is one that models compute in, such as bfloat16. ``auto`` is none."""
    return is_unquantized(name) and CACHE_DTYPES[name].bits is not None


def is_same_format(first: str, second: str) -> bool:
    """Whether two cache dtypes are two names of one format."""
    return _canonical(first) == _canonical(second)


def _canonical(name: str) -> str:
    entry = CACHE_DTYPES.get(name)
    return entry.same_as or name if entry else name
