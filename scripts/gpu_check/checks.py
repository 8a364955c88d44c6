"""What a sweep showed, check by check."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

from gpu_check.sweep import WhatToSweep
from kveval.engines.vllm.failures import memory_is_held
from kveval.formats.registry import CACHE_DTYPES
from kveval.memory.budget import GIB
from kveval.memory.measured import compare_capacity
from kveval.models.checkpoint import read_model
from kveval.run.directory import RunDirectory
from kveval.run.manifest import Manifest, VariantRun
from kveval.run.records import Record

# Of capacity: blocks are rounded, and nothing else may differ.
_MOST_PERCENT = 2.0


@dataclass(frozen=True)
class Check:
    name: str
    status: Literal["ok", "failed", "skipped"]
    said: str

    def as_data(self) -> dict[str, str]:
        return dataclasses.asdict(self)


def checks_of(run: RunDirectory, wanted: WhatToSweep) -> Iterator[Check]:
    """Yields every check of the run, in the order in which a reader asks."""
    manifest = run.read_manifest()
    for variant in manifest.variants.values():
        yield _stored(variant) if variant.role != "control" else _emulated(variant)
        if variant.status == "complete":
            yield _forced(variant)
            if variant.role != "aa":
                yield from _capacity(variant, wanted)
    yield from _scores(run, manifest)
    yield _released(run, manifest)


def _stored(variant: VariantRun) -> Check:
    facts, name = variant.facts, f"launches {variant.name}"
    if variant.status != "complete":
        return Check(name, "failed", f"{variant.status}: {variant.reason}")
    if facts.is_emulated:
        return _emulated(variant)
    asked, stored = facts.requested_cache_dtype or "", facts.effective_cache_dtype
    known = CACHE_DTYPES.get(asked)
    is_right = stored == asked or (known is not None and known.same_as == stored)
    return Check(
        name, "ok" if is_right else "failed",
        f"asked for {asked}, stores {stored}; {facts.attention_backend or 'backend not told'}, "
        f"{facts.execution or 'graphs or eager not told'}, scales {facts.scales}, "
        f"{facts.kv_capacity_tokens:,} tokens ({facts.kv_capacity_ratio or 1:.2f} of the baseline's)",
    )  # fmt: skip


def _emulated(variant: VariantRun) -> Check:
    facts, name = variant.facts, f"emulates {variant.name}"
    if variant.status != "complete":
        return Check(name, "failed", f"{variant.status}: {variant.reason}")
    is_right = bool(facts.emulation_live) and facts.unrounded_layers == []
    left = "" if facts.unrounded_layers == [] else f", not rounded: {facts.unrounded_layers}"
    said = f"{facts.emulation}: {facts.rounded_layers} layers rounded{left}"
    return Check(name, "ok" if is_right else "failed", said)


def _forced(variant: VariantRun) -> Check:
    forced = variant.facts.forced_decode
    reason = next((one.message for one in variant.findings if one.code == "no_forced_decode"), "not tried")
    return Check(f"forces outputs of {variant.name}", "ok" if forced else "failed", "yes" if forced else reason)


def _capacity(variant: VariantRun, wanted: WhatToSweep) -> Iterator[Check]:
    facts, name = variant.facts, f"capacity of {variant.name}"
    gib = wanted.config["engine"]["kv_cache_gib"] if facts.device == "cpu" else facts.kv_cache_gib
    model = read_model(Path(wanted.config["model"]))
    compared = compare_capacity(model.config, wanted.config["model"], facts, None if gib is None else int(gib * GIB))
    if compared.difference_percent is None:
        yield Check(name, "skipped", compared.reason or "not known")
        return
    is_near = abs(compared.difference_percent) <= _MOST_PERCENT
    said = f"computed {compared.theory_tokens:,} tokens, reported {compared.measured_tokens:,}"
    yield Check(name, "ok" if is_near else "failed", f"{said} ({compared.difference_percent:+.2f}%)")


def _scores(run: RunDirectory, manifest: Manifest) -> Iterator[Check]:
    """Yields what was answered. A tiny sweep judges nothing; that the engine repeats itself can be seen."""
    records = {
        name: {one.sample_id: one for one in run.records(name)}
        for name, variant in manifest.variants.items()
        if variant.status == "complete"
    }
    baseline = records.get(manifest.baseline, {})
    for name, found in records.items():
        if name == manifest.baseline or not baseline:
            continue
        shared = found.keys() & baseline.keys()
        same = sum(found[one].output == baseline[one].output for one in shared)
        is_again = manifest.variants[name].role == "aa"
        said = f"{same} of {len(shared)} answers are the baseline's; {_mean(found)}, baseline {_mean(baseline)}"
        yield Check(f"answers of {name}", "ok" if same == len(shared) or not is_again else "failed", said)


def _mean(records: dict[str, Record]) -> str:
    scores = [one.score for one in records.values() if one.score is not None]
    expected = [one.expected.score for one in records.values() if one.expected is not None]
    text = f"score {fmean(scores):.2f}" if scores else "no score"
    return f"{text}, expected {fmean(expected):.3f}" if expected else text


def _released(run: RunDirectory, manifest: Manifest) -> Check:
    held = [
        name
        for name in manifest.variants
        if any(memory_is_held(path.read_text(errors="replace")) for path in run.path.glob(f"engine/{name}*.log"))
    ]
    said = f"found memory in use: {', '.join(held)}" if held else f"{len(manifest.variants)} launches, one by one"
    return Check("memory is released between launches", "failed" if held else "ok", said)
