"""The manifest of a run that is being measured."""

from __future__ import annotations

from typing import Any

from kveval.engines.variants import ResolvedVariant
from kveval.measure import provenance
from kveval.measure.plan.plan import Plan
from kveval.measure.records import why_too_few_answers
from kveval.run.directory import RunDirectory
from kveval.run.manifest import INTERRUPTED, Manifest, VariantRun


class ManifestFile:
    """Writes the manifest again after every change."""

    def __init__(self, run: RunDirectory, manifest: Manifest) -> None:
        self._run = run
        self.manifest = manifest

    def of(self, variant: ResolvedVariant) -> VariantRun:
        return self.manifest.variants[variant.name]

    @property
    def baseline(self) -> VariantRun:
        return self.manifest.variants[self.manifest.baseline]

    def write(self) -> None:
        self._run.write_manifest(self.manifest)

    def update(self, variant: ResolvedVariant, **changes: Any) -> None:
        """Changes fields of a variant's `VariantRun`."""
        current = self.of(variant).model_copy(update=changes)
        self._replace(variants={**self.manifest.variants, variant.name: current})

    def end(self, variant: ResolvedVariant, plan: Plan, **changes: Any) -> None:
        """Notes that every sample was asked. The variant is complete if enough of them are answered."""
        asked, records = len(plan.samples_of(variant)), list(self._run.records(variant.name))
        problem = why_too_few_answers(asked, records, plan.config.judge.max_unanswered_share)
        self.update(variant, status="stopped" if problem else "complete", reason=problem, **changes)

    def finish(self) -> None:
        """Notes how the run ended. A variant that still runs was interrupted."""
        variants = {
            name: variant.model_copy(update={"status": "stopped", "reason": INTERRUPTED})
            if variant.status == "running"
            else variant
            for name, variant in self.manifest.variants.items()
        }
        complete = all(variant.status == "complete" for variant in variants.values())
        self._replace(status="complete" if complete else "incomplete", finished=provenance.now(), variants=variants)

    def _replace(self, **changes: Any) -> None:
        self.manifest = self.manifest.model_copy(update=changes)
        self.write()
