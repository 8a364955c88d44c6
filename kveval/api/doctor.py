"""Says what this machine can do, before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kveval.api.data import list_data
from kveval.api.machine.check import Check, can_sweep
from kveval.api.machine.engine import engine_checks, stored_dtypes
from kveval.api.machine.gpus import Gpu, list_gpus
from kveval.api.machine.machine import DEFAULT_SHARE, GIB, available_bytes, disk_checks, memory_checks, text_check
from kveval.api.machine.model import fit_checks
from kveval.api.memory import estimate_memory
from kveval.config.engine import EngineConfig
from kveval.engines.base import Installation
from kveval.engines.registry import find_installation
from kveval.errors import EngineNotInstalledError, UsageError
from kveval.formats.backends import generation_of
from kveval.models.checkpoint import read_model
from kveval.models.demo import DEMO_MODELS


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine can do.

    Attributes:
        checks: one for each thing that a sweep needs.
        can_sweep: whether a sweep could run here.
        next_command: what to type then; empty if none could.
    """

    checks: tuple[Check, ...]
    can_sweep: bool
    next_command: str


def check_machine(*, model: str | Path | None = None, python: str | Path | None = None) -> Machine:
    """Looks for what a sweep needs, and starts nothing: ``kveval doctor``.

    Args:
        model: also at which context lengths this checkpoint fits, per format.
        python: the interpreter of the environment that vLLM lives in. Default: the one that runs kveval.

    Returns:
        What was found of engine, device, cache dtypes, memory, disk and texts, and what to do. What is missing is no
        error.

    Example:
        >>> machine = kveval.check_machine()
        >>> machine.can_sweep, machine.checks[0].name, machine.checks[0].state
        (True, 'vLLM', 'ok')
    """
    gpus = list_gpus()
    checks: list[Check] = []
    found = None
    try:
        found = find_installation(EngineConfig(python=None if python is None else Path(python)))
    except EngineNotInstalledError as error:
        checks.append(Check.of_error("vLLM", error))
    else:
        checks += engine_checks(found, gpus)
    used = gpus if found is None or found.device.kind == "cuda" else []
    checks += memory_checks(used)
    checks += disk_checks()
    checks.append(text_check([(one.name, one.state) for one in list_data() if one.kind == "text"]))
    if model is not None:
        checks += _model_checks(model, found, used)
    is_able = can_sweep(checks)
    return Machine(tuple(checks), is_able, _next(found, model) if is_able and found else "")


def _model_checks(model: str | Path, found: Installation | None, gpus: Sequence[Gpu]) -> Iterator[Check]:
    demo = DEMO_MODELS.get(str(model))
    if demo is not None and not demo.is_present and not Path(model).exists():
        yield Check("model", "note", f"{demo.name} is not fetched", f"kveval data fetch {demo.name}")
        return
    try:
        weights = read_model(Path(model), "--model").weight_bytes
        yield Check("model", "ok", f"{model}: {weights / GIB:.1f} GiB of weights")
        kind = found.device.kind if found else None
        stored = stored_dtypes(found.device) if found else None
        if kind == "cpu":
            cache = EngineConfig().kv_cache_gib
            if weights + cache * GIB > available_bytes():
                what = f"weights and a cache of {cache} GiB need {weights / GIB + cache:.1f} GiB of memory"
                yield Check("model in memory", "missing", what, "free memory, or use a smaller model")
            yield from fit_checks(estimate_memory(model, cache=f"{cache}GiB", device="cpu"), stored)
            return
        totals = [gpu.total_bytes for gpu in gpus if gpu.total_bytes]
        if not totals:
            what = "the memory of the device is not known, so neither is what fits"
            yield Check("model in memory", "note", what, f"kveval memory {model} --memory 80GiB")
            return
        device = (generation_of(found.device.architecture) if found else None) or "gpu"
        # What fits is that of one device: the smallest.
        memory = f"{min(totals) >> 20}MiB"
        yield from fit_checks(estimate_memory(model, memory=memory, utilization=DEFAULT_SHARE, device=device), stored)
    except UsageError as error:
        yield Check.of_error("model", error)


def _next(found: Installation, model: str | Path | None) -> str:
    if found.device.kind == "cpu":
        preset = "demo" if found.device.has_native_fp8 else "demo-float32"
        return f"kveval sweep {preset}" + (f" --model {model}" if model else "")
    return f"kveval sweep gpu --model {model or 'DIR'}"
