"""What a device's engine stores natively, and what must be emulated or refused there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from kveval.config.emulation import EmulationConfig, emulation_of
from kveval.config.variant import EMULATED_ON, VariantConfig
from kveval.errors import PlanError, nearest
from kveval.formats.registry import CACHE_DTYPES, CPU_DTYPES, find_dtype, is_model_dtype, is_unquantized
from kveval.models.dtype import DEVICE_DTYPES
from kveval.run.manifest import Role


@dataclass(frozen=True, slots=True)
class Device:
    """Where the engine runs, and what it can store there.

    Attributes:
        kind: cpu, cuda, rocm, xpu, ... as vLLM names it; None when it cannot be asked before launch.
        cpu_flags: instruction sets of the processor, lower case.
        cache_dtypes: what ``--kv-cache-dtype`` of the installed vLLM takes; None when it cannot be asked.
        model_dtypes: what models compute in there, the preferred dtype first.
        architecture: of the GPU: sm_90, gfx942, ...; None where it is not known.
    """

    kind: str | None
    cpu_flags: frozenset[str] = frozenset()
    cache_dtypes: frozenset[str] | None = None
    model_dtypes: tuple[str, ...] = DEVICE_DTYPES
    architecture: str | None = None

    @property
    def has_native_fp8(self) -> bool:
        return bool(self.cpu_flags & {"avx512f", "amx_tile"})


def local_cpu_flags() -> frozenset[str]:
    """Returns the instruction sets of this machine's processor. Empty if the kernel does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


@dataclass(frozen=True, slots=True)
class ResolvedVariant:
    """A variant as it will be launched on the device that was found.

    Attributes:
        kv_cache_dtype: the flag given to the engine.
        emulate: what the plugin rounds to before the engine stores `kv_cache_dtype`.
        role: baseline, candidate, control or aa.
        of: the variant a control or A/A run belongs to.
    """

    name: str
    config: VariantConfig
    kv_cache_dtype: str
    emulate: EmulationConfig | None
    role: Role
    of: str | None = None

    @property
    def storage(self) -> str:
        return "emulated" if self.emulate else "native"

    @property
    def is_natively_quantized(self) -> bool:
        """Whether the engine itself stores something other than what the model computes."""
        return self.emulate is None and not is_unquantized(self.kv_cache_dtype)

    @property
    def expected_capacity_ratio(self) -> float | None:
        """How many times the tokens of a 16-bit cache this cache should hold, of a model whose layers are not known.

        Without its scales. None where the cache is not quantized, or kveval does not know its dtype.
        """
        entry = CACHE_DTYPES.get(self.kv_cache_dtype)
        return 16 / entry.bits if self.is_natively_quantized and entry and entry.bits else None


def resolve(variant: VariantConfig, device: Device, role: Role, model_dtype: str | None = None) -> ResolvedVariant:
    """Decides whether the device stores the format or it must be emulated.

    Args:
        model_dtype: what the model computes in. An unquantized cache is of that dtype. None if it is not known.

    Raises:
        PlanError: the device can neither store nor emulate the format, or the model computes in another dtype.
    """
    own = _own_dtype(model_dtype)
    resolved = ResolvedVariant(
        variant.name, variant, _unquantized_as_the_model(variant, role, own), variant.emulate, role
    )
    if variant.emulate is not None and not is_model_dtype(variant.kv_cache_dtype):
        raise PlanError(
            f"variants.{variant.name}: emulate rounds values before a bfloat16 or float16 cache stores them, "
            f"but kv_cache_dtype is {variant.kv_cache_dtype!r}; use: bfloat16, float16"
        )
    problem = _problem(variant.kv_cache_dtype, device)
    if problem is None:
        return resolved
    stand_in = emulation_of(variant.kv_cache_dtype, device.architecture)
    if variant.emulate_where_missing and stand_in is not None:
        return replace(resolved, kv_cache_dtype=own or "bfloat16", emulate=stand_in)
    raise PlanError(f"variants.{variant.name}: kv_cache_dtype: {problem}")


def _own_dtype(model_dtype: str | None) -> str | None:
    """Returns the name that vLLM has for a cache of the model's dtype. It has none for float32."""
    return "auto" if model_dtype == "float32" else model_dtype


def _unquantized_as_the_model(variant: VariantConfig, role: Role, own: str | None) -> str:
    """Returns the cache dtype to ask for: the model's own where any 16-bit cache was meant.

    vLLM copies 16 bits as they are where both dtypes have 16 (read in 0.32, not run): another dtype than the model's
    reads other numbers.
    """
    asked = variant.kv_cache_dtype
    if own is None or not is_model_dtype(asked) or asked == own or variant.endpoint is not None:
        return asked
    is_any_16_bit = find_dtype(variant.name) is CACHE_DTYPES[asked] and variant.name != asked
    if (variant.emulate is not None and asked == EMULATED_ON) or (role == "baseline" and is_any_16_bit):
        return own
    raise PlanError(
        f"variants.{variant.name}: kv_cache_dtype: the model computes in {'float32' if own == 'auto' else own}, and "
        f"vLLM would read the bits of its K and V as {asked}; use: {own}"
    )


def _problem(dtype: str, device: Device) -> str | None:
    """Says why the engine on `device` cannot store `dtype`, and what to use instead. None if it can."""
    if device.cache_dtypes is not None and dtype not in device.cache_dtypes:
        return f"{dtype!r} is not a cache dtype of the installed vLLM; {nearest(dtype, device.cache_dtypes)}"
    if device.kind != "cpu":
        return None
    if dtype not in CPU_DTYPES:
        return (
            f"vLLM's CPU engine takes {dtype!r} without a check and corrupts its cache; use on CPU: "
            f"{', '.join(CPU_DTYPES)}, or emulated: {emulated_alternative(dtype)}"
        )
    if CACHE_DTYPES[dtype].is_quantized and not device.has_native_fp8:
        return (
            f"{dtype!r} needs AVX-512 or AMX on CPU, which this processor lacks; use here: "
            f"{emulated_alternative(dtype)}"
        )
    return None


def is_its_own_control(candidate: ResolvedVariant) -> bool:
    """Says whether the candidate, for which a control was asked, is emulated itself: this device lacks its dtype."""
    config = candidate.config
    return config.control is not None and config.emulate_where_missing and candidate.emulate is not None


def emulated_control(candidate: ResolvedVariant, baseline: ResolvedVariant, device: Device) -> ResolvedVariant:
    """Returns the baseline's engine with the candidate's format emulated: same kernel, same backend, same flags.

    The format is the one that `device` stores.

    Raises:
        PlanError: the candidate is emulated already, or its format cannot be emulated.
    """
    stand_in = emulation_of(candidate.kv_cache_dtype, device.architecture)
    if candidate.emulate is not None:
        raise PlanError(
            f"variants.{candidate.name}: control: emulated compares a native cache with its emulated control, "
            "but this variant is emulated here itself; remove `control`"
        )
    if stand_in is None:
        known = ", ".join(name for name in CACHE_DTYPES if emulation_of(name) is not None)
        raise PlanError(
            f"variants.{candidate.name}: control: emulated cannot emulate {candidate.kv_cache_dtype!r}; use: {known}"
        )
    if candidate.config.model is not None:
        raise PlanError(
            f"variants.{candidate.name}: control: emulated knows scale 1.0 and dynamic scales only, "
            "but this variant has a checkpoint of its own; remove `control`"
        )
    return ResolvedVariant(
        f"{candidate.name}-control", baseline.config, baseline.kv_cache_dtype, stand_in, "control", of=candidate.name
    )


def emulated_alternative(dtype: str) -> str:
    """Returns a variant, as a configuration spells it, that emulates `dtype`, or int8 where kveval cannot."""
    rounding = emulation_of(dtype)
    if rounding is None:
        return "{name: NAME, emulate: {format: int8}}"
    scale = f", scale: {rounding.scale}" if rounding.scale else ""
    return f"{{name: NAME, emulate: {{format: {rounding.format}, granularity: {rounding.granularity}{scale}}}}}"
