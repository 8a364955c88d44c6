"""Asks some samples again without the prefix cache: a quantized cache that is reused must not change answers."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace

from kveval.engines.session import Session
from kveval.engines.variants import ResolvedVariant
from kveval.measure.haystacks import HaystackSamples
from kveval.measure.looks.asked import asked_samples
from kveval.measure.manifest_file import ManifestFile
from kveval.measure.plan.asked_again import cold_tokens, is_cold_checked
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import Reporter
from kveval.measure.records import record_of, request_of, unanswered
from kveval.measure.schedule import ask_all
from kveval.run.directory import RunDirectory
from kveval.run.facts import Facts
from kveval.tasks.sample import Sample


class ColdStage:
    """Asks the cold samples of a variant after all its samples are answered, and writes them to ``cold/``."""

    def __init__(
        self,
        plan: Plan,
        run: RunDirectory,
        manifest: ManifestFile,
        reporter: Reporter,
        *,
        retry_errors: bool,
    ) -> None:
        self._plan = plan
        self._run = run
        self._manifest = manifest
        self._reporter = reporter
        self._samples = plan.cold_samples
        self._retry_errors = retry_errors
        self._missing = {
            variant.name: self._unanswered(variant)
            for variant in plan.variants
            if _can_be_cold(manifest.of(variant).facts)
        }

    def samples_of(self, variant: ResolvedVariant) -> list[Sample]:
        return self._samples if is_cold_checked(variant.role) else []

    def _unanswered(self, variant: ResolvedVariant) -> list[Sample]:
        cold = self._run.cold_records(variant.name)
        return unanswered(self.samples_of(variant), cold, retry_errors=self._retry_errors)

    def missing(self, variant: ResolvedVariant) -> list[Sample]:
        """Returns what is still to be asked: nothing that the variant is not asked with the cache."""
        missing = self._missing.get(variant.name, [])
        return asked_samples(missing, self._plan.looks, self._manifest.of(variant).stopped)

    def is_missing(self, variant: ResolvedVariant) -> bool:
        return bool(self.missing(variant))

    async def started(self, session: Session) -> None:
        """Does nothing."""

    async def run(self, session: Session) -> None:
        """Asks what is missing. If the server dies, the rest is asked on resume."""
        variant, engine, facts = session.variant, session.engine, session.facts
        if self.is_missing(variant):
            # Some may have been taken from an earlier run.
            self._missing[variant.name] = self._unanswered(variant)
        missing = self.missing(variant)
        if not missing or not _can_be_cold(facts):
            return
        self._reporter.status("asking without the prefix cache")
        salt = uuid.uuid4().hex
        gone: str | None = None

        async with session.client() as client:

            async def ask(sample: Sample) -> None:
                nonlocal gone
                if gone:
                    return
                answer = await client.ask(replace(request_of(sample), cache_salt=f"{salt}-{sample.sample_id}"))
                other = await client.other_model()
                gone = engine.exit_message() or other or (answer.error_message if answer.is_refusal else None)
                if other or (gone and answer.is_server_failure):
                    return
                task, reasoning = self._plan.tasks[sample.task], self._plan.reasoning
                record = await asyncio.to_thread(record_of, sample, task, variant.name, answer, reasoning)
                self._run.append_cold(record)
                self._missing[variant.name] = [one for one in self._missing[variant.name] if one is not sample]
                self._reporter.answered(record, cold_tokens(sample))

            await ask_all(
                [HaystackSamples(sample.sample_id, (sample,)) for sample in missing],
                ask,
                facts,
                max_in_flight=self._plan.config.requests.max_in_flight,
            )
        if gone:
            left = len(self._missing[variant.name])
            self._reporter.note(f"{variant.name}: {left} samples were not asked without the prefix cache: {gone}")


def _can_be_cold(facts: Facts) -> bool:
    """Whether the server has a prefix cache and a way around it, as far as that is known."""
    return facts.prefix_caching is not False and "cache_salt" not in facts.lacks
