"""Reads what `import kveval` takes as a configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from kveval.config.engine import flag_name
from kveval.config.read import load_config, with_overrides
from kveval.config.sweep import SweepConfig, validate_config
from kveval.engines.base import NOTHING_TO_LAUNCH, Installation
from kveval.engines.registry import find_installation
from kveval.errors import ConfigError, InfrastructureError, RunDirectoryError
from kveval.run.directory import RunDirectory
from kveval.run.load_results import LoadVariant
from kveval.run.manifest import VariantRun

_RUNS = Path("runs")
_TIME = "%Y%m%d-%H%M%S"
# Engine flags that load no code and reach no other machine.
_HARMLESS_FLAGS = frozenset({
    "attention-backend", "block-size", "dtype", "enable-chunked-prefill", "enforce-eager", "gpu-memory-utilization",
    "kv-cache-dtype-skip-layers", "kv-cache-memory-bytes", "max-model-len", "max-num-batched-tokens", "max-num-seqs",
    "num-gpu-blocks-override", "pipeline-parallel-size", "swap-space", "tensor-parallel-size",
})  # fmt: skip

ConfigSource = SweepConfig | Mapping[str, Any] | str | Path
"""A configuration, its keys and values, a YAML file, or the name of a preset such as ``demo``."""


def read_config(
    config: ConfigSource | None, out: str | Path | None, overrides: Mapping[str, Any], *, resume: bool = False
) -> SweepConfig:
    """Returns the configuration with `overrides`. A file or preset gets a default run directory, ``runs/NAME-TIME``.

    Args:
        config: None takes that of the run which goes on.
        resume: the default is the newest run of that name instead.

    Raises:
        ConfigError: no such file or preset, or a wrong key or value.
        RunDirectoryError: there is no run of that name to go on with.
    """
    changes = {**overrides} if out is None else {**overrides, "out": Path(out)}
    if config is None:
        if out is None or not resume:
            raise ConfigError(
                "CONFIG: required, not given; leave it out only with --resume and --out, to go on with a run"
            )
        return _of_run(Path(out), changes)
    if isinstance(config, str | Path):
        read = load_config(str(config), changes)
        name = Path(config).stem
        return read if read.out else read.model_copy(update={"out": _newest(name) if resume else _new(name)})
    keys = config.model_dump(exclude_unset=True) if isinstance(config, SweepConfig) else config
    return validate_config({**keys, **changes})


def _of_run(path: Path, changes: Mapping[str, Any]) -> SweepConfig:
    """Returns the configuration that a run was made with.

    Raises:
        ConfigError: it names what is executed or who is asked. A run directory may come from anyone, and does not
            decide that. Nor does it keep secrets.
    """
    kept = RunDirectory(path).read_manifest().config
    config = validate_config(with_overrides(kept, changes), f"{path}/manifest.json: config")
    decides = next(_decides(config), None)
    if decides is not None:
        raise ConfigError(f"{decides}: a run directory alone does not decide this; use: the CONFIG file too")
    return config


def _decides(config: SweepConfig) -> Iterator[str]:
    """Yields the keys that name programs, code, secrets or servers."""
    engine = config.engine
    yield from (f"engine.{key}" for key in ("command", "python", "env") if getattr(engine, key))
    yield from (f"engine.args.{flag}" for flag in engine.args if flag_name(flag) not in _HARMLESS_FLAGS)
    if config.include_path is not None:
        yield "include_path"
    yield from (f"tasks.{task.name}" for task in config.tasks if task.has_fixed_prompts and task.file is None)
    for variant in config.variants:
        keys = ("endpoint", "env", "speculative_config", "model")
        yield from (f"variants.{variant.name}.{key}" for key in keys if getattr(variant, key))
        flags = (flag for flag in variant.engine_args if flag_name(flag) not in _HARMLESS_FLAGS)
        yield from (f"variants.{variant.name}.engine_args.{flag}" for flag in flags)


def _new(name: str) -> Path:
    return _RUNS / f"{name}-{datetime.now().astimezone():{_TIME}}"


def _newest(name: str) -> Path:
    """Returns the newest run of a configuration. The time in their names sorts them."""
    runs = sorted(path for path in _RUNS.glob("*") if re.fullmatch(rf"{re.escape(name)}-\d{{8}}-\d{{6}}", path.name))
    if not runs:
        raise RunDirectoryError(
            f"--resume: there is no run {_RUNS}/{name}-TIME to go on with; use: --out with its folder"
        )
    return runs[-1]


def run_folder(config: SweepConfig) -> Path:
    """Returns the run directory. Raises ConfigError if there is none."""
    if config.out is None:
        raise ConfigError("out: required, not given; use a folder for the run, such as runs/tonight")
    return config.out


def engine_for(config: SweepConfig) -> Installation:
    """Returns the engine to launch. Servers that already run need none."""
    return NOTHING_TO_LAUNCH if config.is_attached else find_installation(config.engine)


def untrusted(problems: Sequence[Mapping[str, Any]]) -> InfrastructureError | None:
    """Returns an error that says why the answers of a run cannot be judged. None if they can."""
    if not problems:
        return None
    return InfrastructureError(f"the run cannot be judged: {'; '.join(problem['message'] for problem in problems)}")


def incomplete(what: str, variants: Mapping[str, VariantRun] | Mapping[str, LoadVariant]) -> InfrastructureError | None:
    """Returns an error that names the variants that are not complete, or None if all are."""
    unmeasured = [variant for variant in variants.values() if variant.status != "complete"]
    if not unmeasured:
        return None
    which = "; ".join(f"{variant.name} {variant.status}: {variant.reason}" for variant in unmeasured)
    return InfrastructureError(f"the {what} is incomplete: {which}")
