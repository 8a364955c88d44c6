"""Checks that a run is resumed with what it was made with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kveval.errors import ResumeError
from kveval.run.facts import Facts
from kveval.run.manifest import Manifest

# What may change between a run and its resumption without changing an answer. Folders and files may move: hashes tell
# whether their content is the same.
_MAY_CHANGE = ("out", "judge", "requests", "accept_findings", "cold_check", "load", "include_path")
_INSTEAD = "use the same one, or a new --out"


def check_same_run(old: Manifest, new: Manifest) -> None:
    """Checks that two manifests have the same configuration, inputs and samples.

    Args:
        old: of the run that is resumed.
        new: of the same run, as it would be made now.

    Raises:
        ResumeError: it names the first thing that differs.
    """
    before, now = (
        {key: value for key, value in manifest.config.items() if key not in _MAY_CHANGE} for manifest in (old, new)
    )
    for key, was, is_now in _differences(before, now):
        if key.startswith("tasks.") and key.endswith(".file"):
            continue
        raise ResumeError(f"--resume: {key} was {was!r} in this run and is {is_now!r} now; {_INSTEAD}")
    for name in sorted(old.inputs.keys() | new.inputs.keys()):
        if old.inputs.get(name) != new.inputs.get(name):
            raise ResumeError(f"--resume: {_shown(name)} changed since this run was made; {_INSTEAD}")
    if old.samples_sha256 != new.samples_sha256:
        raise ResumeError("--resume: this version of kveval builds other samples than the run has; use a new --out")


def resumed_manifest(old: Manifest, new: Manifest) -> Manifest:
    """Returns the manifest of a run that goes on. Raises as `check_same_run` does."""
    check_same_run(old, new)
    variants = {name: old.variants.get(name, planned) for name, planned in new.variants.items()}
    return old.model_copy(update={"status": "running", "finished": None, "variants": variants})


def check_same_engine(variant: str, before: Facts, now: Facts) -> None:
    """Checks that an engine does what it did before. Raises ResumeError: it names the first fact that differs."""
    old, new = before.identity(), now.identity()
    for key, value in old.items():
        if value != new[key]:
            raise ResumeError(
                f"--resume: {key} of {variant} was {value!r} in this run and is {new[key]!r} now; "
                "use the same engine, or a new --out"
            )


def _shown(name: str) -> str:
    if name.startswith("task/") and name.endswith("/files"):
        return f"a file beside the YAML of {name.removesuffix('/files')}"
    return name


def _differences(old: Any, new: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields (key, old value, new value) of every leaf that differs, in the order of the configuration's keys."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**new, **old}:
            yield from _differences(old.get(name), new.get(name), f"{key}.{name}".removeprefix("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for position, (was, is_now) in enumerate(zip(old, new, strict=True)):
            yield from _differences(was, is_now, f"{key}.{position}")
    elif old != new:
        yield key, old, new
