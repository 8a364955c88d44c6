"""Takes the answers of an earlier run for a variant that did not change, once some of them are confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from kveval.engines.session import Session
from kveval.engines.variants import ResolvedVariant
from kveval.measure.haystacks import group_by_haystack, tokens_to_compute
from kveval.measure.launching.work import AskAll, Remaining, Work
from kveval.measure.manifest_file import ManifestFile
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import Reporter
from kveval.measure.reuse.share import asked_again
from kveval.measure.reuse.source import Source, earlier_runs, why_another, why_other_facts
from kveval.measure.reuse.taken import Taken, answers_to_take
from kveval.measure.watch.blocks import Blocks
from kveval.run.directory import RunDirectory
from kveval.run.facts import Finding, with_findings
from kveval.run.records import Record
from kveval.run.reuse import Confirmation, Reuse
from kveval.tasks.sample import Sample

Ask = Callable[[Work], Awaitable[None]]


class Confirm(Protocol):
    """The judge's part, which `kveval.api` passes in: measuring imports no judge."""

    def why_not_trusted(self, run: Path, variant: str) -> str | None:
        """Returns why the answers of a variant in an earlier run say nothing. None if they can be trusted."""
        ...

    def compare(self, run: Path, variant: str, again: Sequence[Record]) -> Confirmation:
        """Compares answers of now with those of the earlier run to the same questions."""
        ...


class Reuser:
    """Takes answers from earlier runs into a run that is measured.

    Args:
        confirm: None takes nothing.
    """

    def __init__(
        self, plan: Plan, run: RunDirectory, manifest: ManifestFile, reporter: Reporter, confirm: Confirm | None
    ) -> None:
        self._plan = plan
        self._run = run
        self._manifest = manifest
        self._reporter = reporter
        self._confirm = confirm
        self._folder = plan.config.baseline_from

    async def take(self, session: Session, work: Work, ask: Ask) -> None:
        """Asks a share of the questions that an earlier run has answers to, and takes the other answers if they agree.

        What is taken, and what was asked again, does not remain in `work`.
        """
        variant = session.variant
        if self._confirm is None or self._folder is None or variant.role == "aa" or self._is_settled(variant):
            return
        if not any(sample in work.remaining for sample in self._plan.samples_of(variant)):
            return
        # Every answer is scored again, which takes a while.
        found = await asyncio.to_thread(self._find, session)
        if isinstance(found, str):
            self._refuse(variant, Reuse(path=str(self._folder), refusal=found))
            return
        source, taken = found
        samples = [one for one in self._plan.samples_of(variant) if one.sample_id in taken.records]
        haystacks = group_by_haystack(samples)
        again = asked_again(haystacks, self._plan.config.confirm_share, self._manifest.manifest.run_id)
        ids = {sample.sample_id for haystack in again for sample in haystack.samples}
        if any(record.sample_id not in ids for record in self._run.records(variant.name)):
            # Resumed from a run that asked everything.
            return
        reuse = Reuse(path=str(source.run.path), run_id=source.manifest.run_id, created=source.manifest.created)
        if len(again) == len(haystacks):
            why = f"it has answers in {len(haystacks)} contexts, and all of them would be asked again"
            self._refuse(variant, reuse.model_copy(update={"refusal": why}))
            return
        asked = [sample for haystack in again for sample in haystack.samples]
        fresh = await self._ask_again(variant, asked, work, ask)
        confirmation = self._confirm.compare(source.run.path, variant.name, fresh)
        if confirmation.refusal is not None:
            changes = {"confirmation": confirmation, "refusal": confirmation.refusal}
            self._refuse(variant, reuse.model_copy(update=changes))
            return
        changes = {"confirmation": confirmation, "confirmed_by": variant.name}
        left = [sample for sample in samples if sample.sample_id not in ids]
        self._append(variant, reuse.model_copy(update=changes), taken, left)
        for sample in left:
            work.remaining.done(sample)

    def take_second_run(self, variant: ResolvedVariant) -> bool:
        """Takes the answers of the A/A run from where the baseline's were taken. Returns whether all are taken.

        It is the same setting as the baseline, whose questions were asked again. Its server is not started.
        """
        reuse = self._manifest.baseline.reuse
        if self._confirm is None or variant.role != "aa" or self._is_settled(variant):
            return False
        if reuse is None or reuse.refusal is not None or any(True for _ in self._run.records(variant.name)):
            return False
        run = RunDirectory(Path(reuse.path))
        source, samples = Source(run, run.read_manifest()), self._plan.samples_of(variant)
        why = self._why_another(source, variant)
        theirs = source.manifest.variants.get(variant.name)
        if why is None and theirs is not None:
            why = why_other_facts(theirs, self._manifest.baseline.facts)
        taken = Taken({}, {}) if why else answers_to_take(self._plan, run, variant.name, samples)
        why = why or taken.refusal
        if why is None and len(taken.records) < len(samples):
            why = f"it has answers to {len(taken.records)} of its {len(samples)} questions"
        own = Reuse(path=reuse.path, run_id=reuse.run_id, created=reuse.created)
        if why is not None or theirs is None:
            self._refuse(variant, own.model_copy(update={"refusal": why}))
            return False
        self._append(variant, own.model_copy(update={"confirmed_by": self._manifest.baseline.name}), taken, samples)
        self._manifest.update(variant, facts=theirs.facts, smoke=theirs.smoke)
        return True

    def _is_settled(self, variant: ResolvedVariant) -> bool:
        return self._manifest.of(variant).reuse is not None

    def _find(self, session: Session) -> tuple[Source, Taken] | str:
        """Returns the newest run that fits, with its answers, or why the newest of all does not."""
        assert self._folder is not None  # noqa: S101
        variant, reasons = session.variant, []
        for source in earlier_runs(self._folder, self._run.path):
            if isinstance(source, str):
                reasons.append(source)
                continue
            why = self._why_another(source, variant)
            if why is None:
                why = why_other_facts(source.manifest.variants[variant.name], session.facts)
            if why is None:
                taken = answers_to_take(self._plan, source.run, variant.name, self._plan.samples_of(variant))
                if taken.records:
                    return source, taken
                why = taken.refusal or "it has no answer to any of these questions"
            reasons.append(f"{source.run.path}: {why}")
        more = f" (and {len(reasons) - 1} older runs do not fit either)" if len(reasons) > 1 else ""
        return f"{reasons[0]}{more}" if reasons else f"{self._folder} holds no earlier run"

    def _why_another(self, source: Source, variant: ResolvedVariant) -> str | None:
        assert self._confirm is not None  # noqa: S101
        why = why_another(source.manifest, self._manifest.manifest, variant.name)
        return why or self._confirm.why_not_trusted(source.run.path, variant.name)

    async def _ask_again(self, variant: ResolvedVariant, samples: list[Sample], work: Work, ask: Ask) -> list[Record]:
        missing = [sample for sample in samples if sample in work.remaining]
        by_id = {sample.sample_id: sample for sample in samples}
        tokens = sum(tokens_to_compute(samples).values())
        blocks = Blocks(group_by_haystack(samples), tokens, self._of(variant, by_id))
        try:
            if missing:
                await ask(Work(Remaining(missing), blocks, work.watch, AskAll(missing)))
        finally:
            # If the server broke, the next launch goes on from here.
            for record in self._of(variant, by_id):
                if by_id[record.sample_id] in work.remaining:
                    work.remaining.done(by_id[record.sample_id])
                    work.blocks.answer(record)
        return self._of(variant, by_id)

    def _of(self, variant: ResolvedVariant, samples: dict[str, Sample]) -> list[Record]:
        return [record for record in self._run.records(variant.name) if record.sample_id in samples]

    def _append(self, variant: ResolvedVariant, reuse: Reuse, taken: Taken, samples: Sequence[Sample]) -> None:
        """Writes what is taken. The manifest says so first: what a killed sweep did not write is then asked."""
        records = [taken.records[sample.sample_id] for sample in samples]
        times = sorted(record.sent_at for record in records)
        first, last = (datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") for at in (times[0], times[-1]))
        told = reuse.model_copy(update={"answers": len(records), "asked_from": first, "asked_until": last})
        self._note(variant, "answers_reused", told)
        asked_cold = {sample.sample_id for sample in self._plan.cold_samples}
        for record in records:
            origin = {"reused_from": record.reused_from or reuse.run_id}
            self._run.append(record.model_copy(update=origin))
            if record.sample_id in asked_cold and record.sample_id in taken.cold:
                self._run.append_cold(taken.cold[record.sample_id].model_copy(update=origin))

    def _refuse(self, variant: ResolvedVariant, reuse: Reuse) -> None:
        self._note(variant, "answers_not_reused", reuse)

    def _note(self, variant: ResolvedVariant, code: str, reuse: Reuse) -> None:
        findings = with_findings(self._manifest.of(variant).findings, [Finding.info(code, reuse.in_words())])
        self._manifest.update(variant, reuse=reuse, findings=findings)
        self._reporter.note(f"{variant.name}: {reuse.in_words()}")
