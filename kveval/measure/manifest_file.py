"""The manifest of a run that is being measured."""

from __future__ import annotations

from typing import Any

from kveval.engines.variants import ResolvedVariant
from kveval.measure import provenance
from kveval.measure.looks.asked import asked_samples, stopped_early
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
        """Notes that nothing more is asked. The variant is complete if enough of what was asked is answered."""
        stopped, planned = self.of(variant).stopped, plan.samples_of(variant)
        asked = {sample.sample_id for sample in asked_samples(planned, plan.looks, stopped)}
        records = [record for record in self._run.records(variant.name) if record.sample_id in asked]
        problem = why_too_few_answers(len(asked), records, plan.config.judge.max_unanswered_share)
        reason = problem or stopped_early(len(asked), len(planned), stopped)
        self.update(variant, status="stopped" if problem else "complete", reason=reason, **changes)

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
