"""The only orchestrator: one launch per variant, the same samples for all, everything written down as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kveval.engines.base import OpenEngine
from kveval.engines.registry import open_engine
from kveval.engines.variants import ResolvedVariant
from kveval.errors import EngineError, FactsChangedError, FactsError, ResumeError
from kveval.measure.asker import ServerBrokenError
from kveval.measure.divergence.stage import DivergenceStage
from kveval.measure.haystacks import group_by_haystack, tokens_to_compute
from kveval.measure.launching.launch import MAX_LAUNCHES, Launcher
from kveval.measure.launching.work import Remaining, Work
from kveval.measure.looks.asked import asked_samples
from kveval.measure.looks.inherited import allowance_hours, inherit_stops, with_looks
from kveval.measure.looks.variant import InterimJudge, VariantLooks
from kveval.measure.manifest_file import ManifestFile
from kveval.measure.plan.asked_again import cold_tokens
from kveval.measure.plan.manifest import manifest_of
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import Reporter
from kveval.measure.records import sample_row, unanswered
from kveval.measure.reuse.growing import growing
from kveval.measure.reuse.reuser import Confirm, Reuser
from kveval.measure.stages.cold import ColdStage
from kveval.measure.stages.stage import Stage
from kveval.measure.watch.blocks import Blocks
from kveval.measure.watch.counters import past_findings
from kveval.measure.watch.facts import FactsWatch
from kveval.run.directory import RunDirectory
from kveval.run.facts import Finding, with_findings
from kveval.run.manifest import Manifest
from kveval.run.set_aside import set_broken_lines_aside
from kveval.tasks.sample import Sample


async def sweep(
    plan: Plan,
    out: Path,
    *,
    resume: bool,
    reporter: Reporter,
    retry_errors: bool = False,
    stages: Sequence[Stage] = (),
    confirm: Confirm | None = None,
    open_engine: OpenEngine = open_engine,
    judge: InterimJudge | None = None,
) -> Manifest:
    """Runs `plan` into the run directory `out`.

    Args:
        retry_errors: on resume, ask again the samples that ended as ``engine_error``.
        stages: what else to do with every server after its samples are answered.
        confirm: judges the answers of ``baseline_from``. None takes none.
        judge: judges a candidate while it is asked, so that it is asked no more than its verdicts need. None asks
            everything, and so does ``stop: never``.

    Returns:
        The final manifest. Its status is ``complete`` only if every variant answered enough of its samples.

    Raises:
        RunDirectoryError: `out` holds another run, or another sweep writes there.
        ResumeError: `out` was made with other inputs.
        FactsError: the baseline does something other than it was asked to.
        EngineError: the baseline could not be started.
    """
    run = RunDirectory(out)
    with run.locked():
        run.check_usable(resume=resume)
        judge = judge if plan.config.stop == "when_decided" else None
        manifest = ManifestFile(run, with_looks(manifest_of(run, plan), plan, is_judged=judge is not None))
        for variant in plan.variants:
            for said in set_broken_lines_aside(run, variant.name, [one.sample_id for one in plan.samples_of(variant)]):
                reporter.note(f"{variant.name}: {said}")
        with growing(run, manifest.manifest, plan, reporter):
            return await _Sweep(plan, run, manifest, reporter, retry_errors, stages, confirm, open_engine, judge).run()


class _Sweep:
    def __init__(
        self,
        plan: Plan,
        run: RunDirectory,
        manifest: ManifestFile,
        reporter: Reporter,
        retry_errors: bool,
        stages: Sequence[Stage],
        confirm: Confirm | None,
        open_engine: OpenEngine,
        judge: InterimJudge | None,
    ) -> None:
        self._plan = plan
        self._run = run
        self._manifest = manifest
        self._reporter = reporter
        self._retry_errors = retry_errors
        self._judge = judge
        self._cold = ColdStage(plan, run, manifest, reporter, retry_errors=retry_errors)
        divergence = DivergenceStage(plan, run, manifest.manifest, reporter)
        self._stages: list[Stage] = [self._cold, divergence, *stages]
        self._reuser = Reuser(plan, run, manifest, reporter, confirm)
        self._tokens = tokens_to_compute(plan.samples)
        # A haystack of fixed prompts may have got more of them: what it had is asked first.
        self._order = {one.haystack_id: place for place, one in reversed([*enumerate(plan.in_order)])}
        self._launcher = Launcher(
            plan, run, manifest, reporter,
            order=self._order, tokens=self._tokens, stages=self._stages, reuser=self._reuser, open_engine=open_engine,
        )  # fmt: skip

    async def run(self) -> Manifest:
        first_look = self._plan.looks.first_look
        self._run.write_samples(sample_row(sample, first_look[sample.sample_id]) for sample in self._plan.samples)
        self._manifest.write()
        self._begin_progress()
        for finding in self._plan.findings:
            self._reporter.note(finding.message)
        try:
            for variant in self._plan.variants:
                await self._measure_missing(variant)
        finally:
            self._manifest.finish()
            self._run.write_parquet(self._manifest.manifest.variants)
        return self._manifest.manifest

    def _begin_progress(self) -> None:
        total = sum(self._weight(self._plan.samples_of(v), self._cold.samples_of(v)) for v in self._plan.variants)
        left = sum(self._weight(self._missing(v), self._cold.missing(v)) for v in self._plan.variants)
        self._reporter.begin(total, total - left)

    def _weight(self, samples: Sequence[Sample], cold: Sequence[Sample]) -> int:
        return sum(self._tokens[sample.sample_id] for sample in samples) + sum(map(cold_tokens, cold))

    def _missing(self, variant: ResolvedVariant) -> list[Sample]:
        stopped = self._manifest.of(variant).stopped
        asked = asked_samples(self._plan.samples_of(variant), self._plan.looks, stopped)
        return unanswered(asked, self._run.records(variant.name), retry_errors=self._retry_errors)

    async def _measure_missing(self, variant: ResolvedVariant) -> None:
        inherit_stops(self._manifest, variant)
        work = self._work(variant, self._missing(variant))
        if self._manifest.of(variant).status != "complete":
            await work.looks.take_answered()
        if work.looks.next() is None:
            # It is decided, or a budget that is spent asks no more of a run that goes on.
            work = self._work(variant, self._missing(variant))
        samples, cold = work.remaining.unsuspected(), self._cold.missing(variant)
        planned = len(self._plan.samples_of(variant)) + len(self._cold.samples_of(variant))
        self._reporter.variant(variant.name, planned, planned - len(samples) - len(cold))
        if samples and self._reuser.take_second_run(variant):
            work, samples = self._work(variant, []), []
        if samples:
            await self._measure(variant, work)
        elif any(stage.is_missing(variant) for stage in self._stages):
            try:
                await self._measure(variant, work)
            finally:
                # Every sample is answered already. Whatever becomes of this launch, the variant is complete, unless the
                # server changed: a stage then has to be run again.
                if not self._manifest.of(variant).facts_changed:
                    self._manifest.end(variant, self._plan)
        elif self._manifest.of(variant).status != "complete":
            findings = past_findings(self._manifest.of(variant))
            self._manifest.end(variant, self._plan, facts_changed=[], findings=findings)

    async def _measure(self, variant: ResolvedVariant, work: Work) -> None:
        """Asks what remains of `work`, on a second launch if the first dies.

        Ends as complete, stopped, refused or failed.
        """
        reason, again = "", "started" if variant.config.endpoint is None else "attached"
        for launch in range(1, MAX_LAUNCHES + 1):
            if reason:
                self._reporter.note(f"{variant.name}: {reason}; it is {again} once more")
            try:
                await self._launcher.launch(variant, work, launch)
            except (ServerBrokenError, FactsChangedError) as error:
                # A server that changes often breaks at the same moment, and either may be seen first.
                reason = str(work.watch.refusal or error).removeprefix(f"{variant.name}: ")
                if work.watch.refusal:
                    work.watch.set_aside()
                    self._manifest.update(variant, facts_changed=work.watch.changes)
                    break
                work.remaining.suspect_in_flight()
                continue
            except (FactsError, EngineError, ResumeError) as error:
                if reason:
                    reason = f"{reason}; {again} once more: {error}"
                    break
                self._give_up(variant, error)
                return
            findings = self._manifest.of(variant).findings
            if reason:
                message = f"{reason}; it was {again} once more: the answers come from two launches"
                findings = with_findings(findings, [Finding.warning("engine_restarted", message)])
            self._manifest.end(variant, self._plan, findings=findings)
            return
        self._manifest.update(variant, status="stopped", reason=reason)
        self._reporter.note(f"{variant.name}: stopped with what it has: {reason}")

    def _work(self, variant: ResolvedVariant, missing: list[Sample]) -> Work:
        remaining = Remaining(missing)
        looks = VariantLooks(
            self._plan, variant, self._manifest, self._reporter, self._judge,
            allowance_hours=allowance_hours(self._plan, self._manifest, variant),
            answered=lambda samples: sum(sample not in remaining for sample in samples),
        )  # fmt: skip
        samples = looks.samples
        haystacks = sorted(group_by_haystack(samples), key=lambda haystack: self._order[haystack.haystack_id])
        answered = {sample.sample_id for sample in samples if sample not in remaining}
        records = [record for record in self._run.records(variant.name) if record.sample_id in answered]
        blocks = Blocks(haystacks, sum(self._tokens[sample.sample_id] for sample in samples), records)
        return Work(remaining, blocks, FactsWatch(self._run, variant.name, blocks.answered), looks)

    def _give_up(self, variant: ResolvedVariant, error: FactsError | EngineError | ResumeError) -> None:
        """Notes why a variant is not measured. Raises `error` if the run makes no sense without the variant."""
        if isinstance(error, ResumeError):
            raise error
        status = "refused" if isinstance(error, FactsError) else "failed"
        self._manifest.update(variant, status=status, reason=str(error))
        self._reporter.note(f"{variant.name}: not measured: {error}")
        if variant.role == "baseline":
            raise error
