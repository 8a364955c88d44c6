"""Writes a first configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kveval.config.sweep import validate_config
from kveval.config.values import is_there
from kveval.errors import UsageError, nearest
from kveval.run.storage import write_atomically
from kveval.tasks import task_files

DEFAULT_VARIANTS = ("bf16", "fp8", "int8")
# Those of the preset `gpu`.
DEFAULT_TASKS = ("niah_multikey", "niah_ordinal", "variable_tracking", "qa_two_hop", "code_call_chain")
DEFAULT_SAMPLES = 200


def write_config(
    path: str | Path,
    *,
    model: str | Path,
    variants: Sequence[str] = DEFAULT_VARIANTS,
    context_lengths: Sequence[int] = (),
    tasks: Sequence[str] = DEFAULT_TASKS,
    samples: int = DEFAULT_SAMPLES,
    endpoints: Mapping[str, str] | None = None,
    served_model: str | None = None,
    python: str | Path | None = None,
    force: bool = False,
) -> Path:
    """Writes a configuration with comments, once it is known to be valid: ``kveval init``.

    Args:
        path: the file to write.
        model: a checkpoint folder, or the name of a demo model.
        variants: cache settings by name. The first is the baseline.
        context_lengths: in tokens. Default: 4K, 16K, 64K and so on, up to the model's window.
        tasks: names of tasks.
        samples: per task and context length.
        endpoints: addresses of servers that run already, by variant, in place of `variants`. The first is the baseline.
        served_model: what these servers call the model.
        python: the interpreter of the environment that vLLM lives in. Default: the one that runs kveval.
        force: replace a file that is there.

    Returns:
        The file.

    Raises:
        UsageError: the file is there already, or a value cannot be used. Nothing was written.
        StorageError: the file cannot be written.

    Example:
        >>> path = kveval.write_config("first.yaml", model="smollm2", context_lengths=[512], tasks=["niah_single"])
        >>> kveval.plan_sweep(path, out="runs/new")["engine_launches"]
        4
    """
    file = Path(path)
    if is_there(file) and not force:
        raise UsageError(f"{file}: is there already; use: another FILE, or --force to replace it")
    if endpoints and not served_model:
        raise UsageError("--served-model: required with --endpoint, not given; use: the name that /v1/models lists")
    for one, given in (("--served-model", served_model), ("--python", python)):
        if given and bool(endpoints) != (one == "--served-model"):
            raise UsageError(f"{one}: of no use {'with' if endpoints else 'without'} --endpoint; leave it out")
    known = [task.name for task in task_files.list_tasks()]
    for name in tasks:
        if ":" not in name and not name.endswith(".jsonl") and name not in known:
            raise UsageError(f"--tasks: {name!r} is not a task; {nearest(name, known)}")
    # A folder is found from wherever the file is moved to.
    place = str(Path(model).absolute()) if is_there(Path(model)) else str(model)
    entries = _attached(endpoints, served_model) if endpoints else [_variant(name) for name in variants]
    keys: dict[str, Any] = {
        "model": place, "variants": entries, "baseline": next(iter(endpoints or variants), ""), "tasks": [*tasks],
        "samples": samples,
    }  # fmt: skip
    keys |= {"context_lengths": [*context_lengths]} if context_lengths else {}
    keys |= {"engine": {"python": str(python)}} if python else {}
    text = _commented(keys)
    validate_config(yaml.safe_load(text), str(file))
    write_atomically(file, text)
    return file


def _variant(name: str) -> Any:
    # A device that cannot store it, such as a CPU without AVX-512, emulates it.
    return {"name": name, "emulate_where_missing": True} if name == "fp8" else name


def _attached(endpoints: Mapping[str, str], served_model: str | None) -> list[Any]:
    return [{"name": name, "endpoint": {"url": url, "model": served_model}} for name, url in endpoints.items()]


def _commented(keys: Mapping[str, Any]) -> str:
    def line(key: str) -> str:
        return f"{key}: {_flow(keys[key])}"

    lengths, engine = "context_lengths", "engine"
    return "\n".join((
        "# Plan it: kveval sweep FILE --dry-run. Measure: kveval sweep FILE. Every key: README.md of kveval.",
        "# A Hugging Face checkpoint folder, or a demo model: smollm2, gemma3-270m.",
        line("model"),
        "# Cache settings under test. All are asked the same questions and compared with the baseline.",
        "variants:",
        *(f"  - {_flow(one)}" for one in keys["variants"]),
        line("baseline"),
        "# Prompt tokens that the engine sees; 4k is 4096. Without this key: 4k, 16k, 64k and so on, up to the window.",
        line(lengths) if lengths in keys else "# context_lengths: [4k, 16k, 64k]",
        "# `kveval tasks` lists them. A task that the baseline always or never gets right shows no loss.",
        line("tasks"),
        "# Per task and context length. More make smaller losses visible.",
        line("samples"),
        "# The share of the samples that the baseline answers twice. It measures the noise.",
        "aa_share: 0.25",
        "# A loss of at most so much passes: 0.02 is two points.",
        "# judge: {margin: 0.02}",
        *([] if any(isinstance(one, dict) and "endpoint" in one for one in keys["variants"]) else (
            "# How vLLM is launched. It may live in another environment: name its python.",
            line(engine) if engine in keys else "# engine: {args: {gpu-memory-utilization: 0.9}}",
        )),
        "",
    ))  # fmt: skip


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").strip()
