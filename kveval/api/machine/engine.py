"""What the installed vLLM is, what its device is, and which cache dtypes that stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kveval.api.machine.check import Check
from kveval.api.machine.gpus import Gpu
from kveval.config.variant import VariantConfig
from kveval.engines.base import Installation
from kveval.engines.variants import Device, resolve
from kveval.engines.vllm.installation import CHECKED_VERSIONS
from kveval.errors import PlanError
from kveval.formats.backends import SUPPORT, generation_of
from kveval.formats.registry import CACHE_DTYPES

_GPU_BUILD = "pip install 'kveval[vllm]'"


def engine_checks(found: Installation, gpus: Sequence[Gpu]) -> Iterator[Check]:
    """Yields what an installed engine is, and what it can do on this machine."""
    yield _version(found)
    yield _plugin(found)
    yield _device(found, gpus)
    if gpus:
        yield Check("driver", "ok", f"NVIDIA {gpus[0].driver}")
    yield _cache_dtypes(found.device)


def _version(found: Installation) -> Check:
    said = f"{found.distribution or 'vllm'} {found.version or 'of an unknown version'}, torch {found.torch_version}"
    release = ".".join((found.version or "").split(".")[:2])
    checked = ", ".join(CHECKED_VERSIONS)
    if release in CHECKED_VERSIONS:
        return Check("vLLM", "ok", f"{said}; what kveval reads of {release} was checked in its source")
    todo = f"use {checked}, or check this one: KVEVAL_CONTRACT_SOURCE=FOLDER scripts/test tests/contract"
    return Check("vLLM", "note", f"{said}; kveval was checked with {checked} only", todo)


def _plugin(found: Installation) -> Check:
    if found.has_emulation and found.has_forced_decode:
        return Check("plugin", "ok", "kveval's plugin is installed beside vLLM: it emulates formats and forces outputs")
    lacks = "forces no outputs" if found.has_emulation else "emulates no format and forces no outputs"
    return Check("plugin", "note", f"this vLLM {lacks}", "install this kveval into the environment of vLLM too")


def _device(found: Installation, gpus: Sequence[Gpu]) -> Check:
    kind = found.device.kind
    if not kind:
        return Check("device", "missing", "vLLM sees no device", f"install the driver, or a CPU build of vLLM; on a "
                     f"GPU: {_GPU_BUILD}")  # fmt: skip
    named = f"{kind}: {found.device_name or 'unnamed'}"
    if found.device.architecture:
        named += f" ({found.device.architecture})"
    if kind == "cuda":
        return Check("device", "ok", f"{named}, {len(gpus)} of them" if len(gpus) > 1 else named)
    if gpus:
        return Check("device", "note", f"{named}; this vLLM does not use the {gpus[0].name}", _GPU_BUILD)
    if kind == "cpu" and not found.device.has_native_fp8:
        todo = "kveval sweep demo-float32, or `args: {dtype: float32}` of your engine"
        return Check("device", "note", f"{named}, without AVX-512: no FP8, and 16-bit models are slow", todo)
    return Check("device", "ok", named)


def stored_dtypes(device: Device) -> dict[str, tuple[str, ...]] | None:
    """Returns the cache dtypes that a device stores natively, each with the backends that do. None: not known."""
    where = _where(device)
    if where is None:
        return None
    stored = {}
    for name, entry in CACHE_DTYPES.items():
        backends = dict.fromkeys(s.backend for s in SUPPORT if where in s.devices and name in s.dtypes)
        if entry.is_in_vllm and backends and _is_native(name, device):
            stored[name] = tuple(backends)
    return stored


def _where(device: Device) -> str | None:
    return "cpu" if device.kind == "cpu" else generation_of(device.architecture) if device.kind == "cuda" else None


def _is_native(name: str, device: Device) -> bool:
    variant = VariantConfig(name=name, kv_cache_dtype=name, emulate_where_missing=True)
    try:
        return resolve(variant, device, "candidate").emulate is None
    except PlanError:
        return False


def _cache_dtypes(device: Device) -> Check:
    stored = stored_dtypes(device)
    if stored is None:
        todo = "a sweep finds out at launch, and measures no engine that stores something else"
        what = f"kveval does not know which backends of vLLM store what on {device.architecture or device.kind}"
        return Check("cache dtypes", "note", what, todo)
    emulated = [name for name, entry in CACHE_DTYPES.items() if entry.rounding is not None and name not in stored]
    native = ", ".join(f"{name} ({', '.join(backends)})" for name, backends in stored.items())
    found = f"stored: {native or 'none'}; emulated, which saves no memory: {', '.join(emulated)}"
    if device.kind == "cuda":
        found += "; emulation needs `args: {enforce-eager: true}`"
    return Check("cache dtypes", "ok" if stored else "missing", found)
