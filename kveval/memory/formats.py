"""What one token of one layer takes in each cache format, scales included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kveval.errors import UsageError, nearest
from kveval.memory.architecture import Architecture
from kveval.memory.layers import AttentionLayer

_SCALE_BYTES = 4
_NVFP4_GROUP = 16
_DS_MLA_VALUES = 576


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """A value of ``--kv-cache-dtype``.

    Attributes:
        scales: what is stored beside the values.
        side_bytes: of K, or of V, of one head and token, from its number of values.
        latent_bytes: of one latent vector; None where vLLM does not store one so.
        multiple_of: what a head's size must be a multiple of.
        needs_latent: for latent caches only.
    """

    name: str
    scales: str
    side_bytes: Callable[[int], int]
    latent_bytes: Callable[[int], int] | None
    multiple_of: int = 1
    needs_latent: bool = False

    def token_bytes(self, layer: AttentionLayer) -> int:
        """Bytes one token takes in `layer`, on one rank; no rounding to blocks."""
        if layer.opaque_bytes is not None:
            return layer.opaque_bytes
        if layer.is_latent:
            return self.latent_bytes(layer.head_dim) if self.latent_bytes else 0
        return layer.kv_heads * (self.side_bytes(layer.head_dim) + self.side_bytes(layer.head_dim_v))

    def misfit(self, architecture: Architecture) -> str | None:
        """Why `architecture` cannot be stored so; None when it can."""
        for layer in architecture.attention:
            if layer.is_latent and self.latent_bytes is None:
                return "vLLM does not store a latent (MLA) cache so"
            if layer.is_latent and self.needs_latent and layer.head_dim != _DS_MLA_VALUES:
                return f"made for {_DS_MLA_VALUES} latent values, not {layer.head_dim}"
            if not layer.is_latent and layer.opaque_bytes is None and self.needs_latent:
                return "made for latent (MLA) caches"
            if layer.opaque_bytes is None and layer.head_dim % self.multiple_of:
                return f"needs a head size that is a multiple of {self.multiple_of}, not {layer.head_dim}"
        return None


def _plain(name: str, value_bytes: int, scales: str) -> StoredFormat:
    return StoredFormat(name, scales, lambda values: values * value_bytes, lambda values: values * value_bytes)


def _per_token_head(name: str, values_per_byte: int) -> StoredFormat:
    """One float32 scale behind K and one behind V of every head and token; behind a latent vector, two.

    Source: `customize_spec` of TritonAttentionBackend (vllm/v1/attention/backends/triton_attn.py) and of
    MLACommonBackend (vllm/model_executor/layers/attention/mla_attention.py). int4's zero point shares the scale's
    four bytes.
    """
    return StoredFormat(
        name, "float32 per token and head",
        lambda values: values // values_per_byte + _SCALE_BYTES if values else 0,
        lambda values: values // values_per_byte + 2 * _SCALE_BYTES,
        multiple_of=values_per_byte,
    )  # fmt: skip


def _nvfp4(name: str) -> StoredFormat:
    """Four bits per value and one FP8 scale per 16 (`nvfp4_kv_cache_full_dim`, vllm/utils/torch_utils.py)."""
    return StoredFormat(
        name, "FP8 per 16 values", lambda values: values // 2 + values // _NVFP4_GROUP, None, _NVFP4_GROUP
    )


def _ds_mla(name: str, token_bytes: int) -> StoredFormat:
    """A fixed layout (`get_kv_cache_spec`, vllm/model_executor/layers/attention/mla_attention.py).

    fp8_ds_mla: 512 FP8 values, four float32 scales, 64 bfloat16 rotary values.
    """
    return StoredFormat(name, "inside the layout", lambda _: 0, lambda _: token_bytes, needs_latent=True)


# Scales of fp8 are two numbers per layer (vllm/config/cache.py): nothing that grows with tokens.
_FORMATS = {
    stored.name: stored
    for stored in (
        _plain("bfloat16", 2, "none"),
        _plain("float16", 2, "none"),
        _plain("fp8", 1, "per tensor"),
        _plain("fp8_e4m3", 1, "per tensor"),
        _plain("fp8_e5m2", 1, "per tensor"),
        _per_token_head("int8_per_token_head", 1),
        _per_token_head("fp8_per_token_head", 1),
        _per_token_head("int4_per_token_head", 2),
        _nvfp4("nvfp4"),
        _nvfp4("nvfp4_4over6"),
        _ds_mla("fp8_ds_mla", 656),
        _ds_mla("nvfp4_ds_mla", 352),
    )
}
_SHORT = {"bf16": "bfloat16", "fp16": "float16", "int8": "int8_per_token_head"}
# kveval's own names (kveval.config.sweep.SHORTHANDS); int4_per_token_head is another format.
_EMULATED_ONLY = ("int4", "int2")
_DEFAULT = ("bfloat16", "fp8", "int8_per_token_head", "int4_per_token_head", "nvfp4", "fp8_ds_mla")


def parse_format(name: str, where: str = "--formats") -> StoredFormat:
    """A format by vLLM's name or kveval's shorthand. Raises UsageError: another name; `where` it stands."""
    if name in _EMULATED_ONLY:
        raise UsageError(
            f"{where}: {name!r} is emulated only: stored as bfloat16, it saves no memory; "
            f"allowed: {', '.join(sorted(_all_names()))}"
        )
    full = _SHORT.get(name, name)
    if full not in _FORMATS:
        raise UsageError(f"{where}: {name!r} is not a cache format this can size; {nearest(name, _all_names())}")
    return _FORMATS[full]


def _all_names() -> tuple[str, ...]:
    return (*_SHORT, *_FORMATS)


def formats_for(architecture: Architecture, names: list[str] | None) -> list[StoredFormat]:
    """The formats asked for, each once whatever its name; by default the common ones `architecture` can be stored in.

    Raises:
        UsageError: an unknown format, or one this model cannot be stored in.
    """
    if names is None:
        return [_FORMATS[name] for name in _DEFAULT if _FORMATS[name].misfit(architecture) is None]
    if not names:
        raise UsageError(f"--formats: none given; allowed: {', '.join(_all_names())}")
    formats = list(dict.fromkeys(parse_format(name) for name in names))
    for stored in formats:
        misfit = stored.misfit(architecture)
        if misfit:
            fitting = ", ".join(name for name, other in _FORMATS.items() if other.misfit(architecture) is None)
            raise UsageError(f"--formats: {stored.name}: {misfit}; allowed for this model: {fitting}")
    return formats
