"""What a device's engine stores natively, and what must be emulated or refused there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from kveval.config.native_formats import STORED_AS
from kveval.config.sweep import UNQUANTIZED, EmulationConfig, VariantConfig
from kveval.errors import PlanError
from kveval.run.manifest import Role

# vllm/v1/attention/backends/cpu_attn.py; the platform itself validates nothing and corrupts memory for others.
CPU_NATIVE = ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2")
_CPU_FP8 = ("fp8", "fp8_e4m3", "fp8_e5m2")


@dataclass(frozen=True, slots=True)
class Device:
    """Where the engine runs.

    Attributes:
        kind: cpu, cuda, rocm, xpu, ... as vLLM names it; None when it cannot be asked before launch.
        cpu_flags: instruction sets of the processor, lower case.
    """

    kind: str | None
    cpu_flags: frozenset[str] = frozenset()

    @property
    def has_native_fp8(self) -> bool:
        return bool(self.cpu_flags & {"avx512f", "amx_tile"})


def local_cpu_flags() -> frozenset[str]:
    """Instruction sets of this machine's processor; empty where the kernel does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


@dataclass(frozen=True, slots=True)
class ResolvedVariant:
    """A variant as it will be launched on the device found.

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
    def is_native_8bit_or_less(self) -> bool:
        return self.emulate is None and self.kv_cache_dtype not in UNQUANTIZED


def resolve(variant: VariantConfig, device: Device, role: Role) -> ResolvedVariant:
    """Decides natively stored or emulated from the device.

    Raises:
        PlanError: the device cannot do it; the message has the reason and the emulated alternative.
    """
    resolved = ResolvedVariant(variant.name, variant, variant.kv_cache_dtype, variant.emulate, role)
    if variant.emulate is not None and variant.kv_cache_dtype not in ("bfloat16", "float16"):
        raise PlanError(
            f"variants.{variant.name}: emulate rounds values before a bfloat16 or float16 cache stores them, "
            f"but kv_cache_dtype is {variant.kv_cache_dtype!r}; allowed: bfloat16, float16"
        )
    if device.kind != "cpu" or variant.kv_cache_dtype in CPU_NATIVE:
        if device.kind == "cpu" and variant.kv_cache_dtype in _CPU_FP8 and not device.has_native_fp8:
            raise PlanError(
                f"variants.{variant.name}: kv_cache_dtype {variant.kv_cache_dtype!r} needs AVX-512 or AMX on CPU, "
                f"which this processor lacks; allowed here: {_emulated_alternative(variant.kv_cache_dtype)}"
            )
        return resolved
    stored = STORED_AS.get(variant.kv_cache_dtype)
    if variant.emulate_where_missing and stored is not None:
        return replace(resolved, kv_cache_dtype="bfloat16", emulate=stored)
    raise PlanError(
        f"variants.{variant.name}: the CPU engine accepts kv_cache_dtype {variant.kv_cache_dtype!r} without a check "
        f"and corrupts its cache; allowed on CPU: {', '.join(CPU_NATIVE)}, or emulated: "
        f"{_emulated_alternative(variant.kv_cache_dtype)}"
    )


def emulated_control(candidate: ResolvedVariant, baseline: ResolvedVariant) -> ResolvedVariant:
    """The baseline's engine with the candidate's format rounded in: same kernel, same backend, same flags.

    Raises:
        PlanError: the candidate is emulated already, or its format cannot be emulated.
    """
    stored = STORED_AS.get(candidate.kv_cache_dtype)
    if candidate.emulate is not None:
        raise PlanError(
            f"variants.{candidate.name}: control: emulated compares a native cache with its emulated control, "
            "but this variant is emulated here itself; remove `control`"
        )
    if stored is None:
        raise PlanError(
            f"variants.{candidate.name}: control: emulated cannot emulate {candidate.kv_cache_dtype!r}; "
            f"allowed: {', '.join(STORED_AS)}"
        )
    if candidate.config.model is not None:
        raise PlanError(
            f"variants.{candidate.name}: control: emulated knows scale 1.0 and dynamic scales only, "
            "but this variant has a checkpoint of its own; remove `control`"
        )
    return ResolvedVariant(
        f"{candidate.name}-control", baseline.config, baseline.kv_cache_dtype, stored, "control", of=candidate.name
    )


def _emulated_alternative(dtype: str) -> str:
    stored = STORED_AS.get(dtype)
    if stored is None:
        return "{name: NAME, emulate: {format: int8}}"
    scale = f", scale: {stored.scale}" if stored.scale else ""
    return f"{{name: NAME, emulate: {{format: {stored.format}, granularity: {stored.granularity}{scale}}}}}"
