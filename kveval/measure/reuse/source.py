"""Finds the earlier run whose answers a variant can take: nothing that decides an answer may be another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kveval.errors import RunDirectoryError
from kveval.run.directory import RunDirectory
from kveval.run.facts import Facts
from kveval.run.manifest import Manifest, VariantRun

# Packages that decide what is asked, answered or scored. A manifest's other versions say nothing about answers.
_IRRELEVANT_PACKAGES = frozenset({"python", "numpy", "pandas", "datasets", "jinja2", "lm-eval"})
_SHA256 = re.compile(r"[0-9a-f]{64}")
# What changes nothing about an answer that was given.
_IRRELEVANT_ENGINE_KEYS = frozenset({"port", "python", "startup_timeout_s"})
_IRRELEVANT_REQUEST_KEYS = frozenset({"timeout_s", "max_attempts"})


@dataclass(frozen=True, slots=True)
class Source:
    """An earlier run, as far as its manifest is known to fit."""

    run: RunDirectory
    manifest: Manifest


def earlier_runs(folder: Path, out: Path) -> Iterator[Source | str]:
    """Yields the run in `folder`, or the runs in its folders, the newest first. A run that cannot be read is a reason.

    Args:
        out: the run that is measured now, which is left out.
    """
    paths = [folder] if RunDirectory(folder).exists() else sorted(one for one in _folders(folder))
    found: list[Source] = []
    for path in paths:
        run = RunDirectory(path)
        if path.resolve() == out.resolve() or not run.exists():
            continue
        try:
            found.append(Source(run, run.read_manifest()))
        except RunDirectoryError as error:
            yield str(error)
    yield from sorted(found, key=lambda one: one.manifest.created, reverse=True)


def why_another(earlier: Manifest, now: Manifest, name: str) -> str | None:
    """Returns what differs for the variant `name` between two runs, or is not known. None if nothing does."""
    return next(_differences(earlier, now, name), None)


def why_other_facts(earlier: VariantRun, now: Facts) -> str | None:
    """Returns which fact of a running server is not that of the earlier one, or is not known. None if all are equal."""
    if earlier.facts.engine_version is None or now.engine_version is None:
        return "no version of the engine is known"
    before, after = (
        {**facts.identity(), **facts.model_dump(include={"forced_decode", "stepwise"})}
        for facts in (earlier.facts, now)
    )
    return next((f"{key} was {before[key]} and is {after[key]}" for key in before if before[key] != after[key]), None)


def _folders(folder: Path) -> list[Path]:
    try:
        return [one for one in folder.iterdir() if one.is_dir()]
    except OSError:
        return []


def _differences(earlier: Manifest, now: Manifest, name: str) -> Iterator[str]:
    ours, theirs = now.variants[name], earlier.variants.get(name)
    if ours.spec.get("endpoint") is not None:
        yield "its server runs already: no hash says which weights it has"
        return
    if theirs is None or theirs.role != ours.role or theirs.of != ours.of:
        yield f"it has no {ours.role} called {name}"
        return
    if theirs.status != "complete":
        yield f"its {name} is {theirs.status}"
    if theirs.looks or theirs.stopped:
        yield f"its {name} was judged while it was asked, so which answers there are depends on them"
    yield from _changed("model file", _model_files(earlier, name), _model_files(now, name), unknown="hash of the model")
    yield from _changed("input", _other_inputs(earlier, now), _other_inputs(now, now))
    yield from _changed("version of", _versions(earlier), _versions(now))
    yield from _changed("machine:", _machine(earlier), _machine(now), unknown="model of the device")
    yield from _changed(f"{name}:", _without(theirs.spec, {"model"}), _without(ours.spec, {"model"}))
    for key, left_out in (("engine", _IRRELEVANT_ENGINE_KEYS), ("requests", _IRRELEVANT_REQUEST_KEYS)):
        yield from _changed(f"{key}:", *(_without(one.config.get(key), left_out) for one in (earlier, now)))
    # A control and an A/A run have the environment of the baseline.
    users = {name, ours.of, now.baseline} if ours.role in ("aa", "control") else {name}
    for user in sorted(filter(None, users)):
        yield from _changed(f"{user}:", _configured(earlier, user), _configured(now, user))
    yield from _changed("sampling:", earlier.sampling, now.sampling)


def _changed(
    what: str, before: Mapping[str, Any], now: Mapping[str, Any], *, unknown: str | None = None
) -> Iterator[str]:
    if unknown is not None and not (before and now):
        yield f"no {unknown} is known"
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            yield f"{what} {key} was {_shown(before.get(key))} and is {_shown(now.get(key))}"


def _shown(value: Any) -> str:
    return f"sha256 {value[:12]}" if isinstance(value, str) and _SHA256.fullmatch(value) else repr(value)


def _model_files(manifest: Manifest, name: str) -> dict[str, str]:
    """Returns the sha256 of each file of a variant's checkpoint, from the labels that `hash_models` gives."""
    model = manifest.variants[name].spec.get("model")
    users = [one.name for one in manifest.variants.values() if one.spec.get("model") == model]
    labels = [f"model of {user}/" for user in users]
    own = next((label for label in labels if any(key.startswith(label) for key in manifest.inputs)), "model/")
    return {key.removeprefix(own): value for key, value in manifest.inputs.items() if key.startswith(own)}


def _other_inputs(manifest: Manifest, now: Manifest) -> dict[str, str]:
    """Returns the sha256 of everything else that decides a prompt, of the tasks that are asked now."""
    tasks = {key for key in now.inputs if key.startswith("task/")}
    return {
        key: value
        for key, value in manifest.inputs.items()
        if not key.startswith(("model/", "model of ", "task/")) or key in tasks
    }


def _versions(manifest: Manifest) -> dict[str, str]:
    return {name: version for name, version in manifest.versions.items() if name not in _IRRELEVANT_PACKAGES}


def _machine(manifest: Manifest) -> dict[str, Any]:
    """Returns the model of the device. On a CPU, its threads decide in which order numbers are added up."""
    device = manifest.machine.get("device")
    if not device:
        return {}
    keys = ("device", "processor", "cores") if str(device).lower().endswith("cpu") else ("device",)
    return {key: manifest.machine.get(key) for key in keys}


def _without(values: Any, left_out: frozenset[str] | set[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in left_out} if isinstance(values, Mapping) else {}


def _configured(manifest: Manifest, name: str) -> dict[str, Any]:
    """Returns the entry of a variant in the configuration: its environment decides answers too."""
    entries = manifest.config.get("variants") or []
    named = (one for one in entries if isinstance(one, Mapping) and one.get("name") == name)
    return _without(next(named, {}), {"model"})
