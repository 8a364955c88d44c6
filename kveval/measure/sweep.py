"""The only orchestrator: one launch per variant, the same samples for all, everything written down as it comes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kveval.engines.base import OpenEngine
from kveval.engines.registry import open_engine
from kveval.engines.session import Session, open_session
from kveval.engines.speculation import judge_partner
from kveval.engines.variants import ResolvedVariant
from kveval.errors import EngineError, FactsChangedError, FactsError, ResumeError
from kveval.measure.asker import Remaining, SampleAsker, ServerBrokenError, Work
from kveval.measure.divergence.stage import DivergenceStage
from kveval.measure.haystacks import group_by_haystack, tokens_to_compute
from kveval.measure.manifest_file import ManifestFile
from kveval.measure.plan.asked_again import cold_tokens
from kveval.measure.plan.manifest import check_same_engine, manifest_of
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import Reporter
from kveval.measure.records import sample_row, unanswered
from kveval.measure.reuse.growing import growing
from kveval.measure.reuse.reuser import Confirm, Reuser
from kveval.measure.stages.cold import ColdStage
from kveval.measure.stages.stage import Stage
from kveval.measure.watch.answers import answer_findings
from kveval.measure.watch.blocks import Blocks
from kveval.measure.watch.counters import kept_findings, past_findings
from kveval.measure.watch.facts import FactsWatch
from kveval.run.directory import RunDirectory
from kveval.run.facts import Facts, Finding, with_findings
from kveval.run.manifest import Manifest, SmokeResult
from kveval.run.set_aside import set_broken_lines_aside
from kveval.tasks.sample import Sample

_MAX_LAUNCHES = 2


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
) -> Manifest:
    """Runs `plan` into the run directory `out`.

    Args:
        retry_errors: on resume, ask again the samples that ended as ``engine_error``.
        stages: what else to do with every server after its samples are answered.
        confirm: judges the answers of ``baseline_from``. None takes none.

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
        manifest = ManifestFile(run, manifest_of(run, plan))
        for variant in plan.variants:
            for said in set_broken_lines_aside(run, variant.name, [one.sample_id for one in plan.samples_of(variant)]):
                reporter.note(f"{variant.name}: {said}")
        with growing(run, manifest.manifest, plan, reporter):
            return await _Sweep(plan, run, manifest, reporter, retry_errors, stages, confirm, open_engine).run()


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
    ) -> None:
        self._plan = plan
        self._run = run
        self._manifest = manifest
        self._reporter = reporter
        self._cold = ColdStage(plan, run, manifest.manifest, reporter, retry_errors=retry_errors)
        self._stages: list[Stage] = [self._cold, DivergenceStage(plan, run, manifest.manifest, reporter), *stages]
        self._reuser = Reuser(plan, run, manifest, reporter, confirm)
        self._open_engine = open_engine
        self._tokens = tokens_to_compute(plan.samples)
        # A haystack of fixed prompts may have got more of them: what it had is asked first.
        self._order = {one.haystack_id: place for place, one in reversed([*enumerate(plan.in_order)])}
        self._missing = {
            variant.name: unanswered(plan.samples_of(variant), run.records(variant.name), retry_errors=retry_errors)
            for variant in plan.variants
        }

    async def run(self) -> Manifest:
        self._run.write_samples(sample_row(sample) for sample in self._plan.samples)
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
        left = sum(self._weight(self._missing[v.name], self._cold.missing(v)) for v in self._plan.variants)
        self._reporter.begin(total, total - left)

    def _weight(self, samples: Sequence[Sample], cold: Sequence[Sample]) -> int:
        return sum(self._tokens[sample.sample_id] for sample in samples) + sum(map(cold_tokens, cold))

    async def _measure_missing(self, variant: ResolvedVariant) -> None:
        samples, cold = self._missing[variant.name], self._cold.missing(variant)
        planned = len(self._plan.samples_of(variant)) + len(self._cold.samples_of(variant))
        self._reporter.variant(variant.name, planned, planned - len(samples) - len(cold))
        if samples and not self._reuser.take_second_run(variant):
            await self._measure(variant, samples)
        elif any(stage.is_missing(variant) for stage in self._stages):
            try:
                await self._measure(variant, [])
            finally:
                # Every sample is answered already. Whatever becomes of this launch, the variant is complete, unless the
                # server changed: a stage then has to be run again.
                if not self._manifest.of(variant).facts_changed:
                    self._manifest.end(variant, self._plan)
        elif self._manifest.of(variant).status != "complete":
            findings = past_findings(self._manifest.of(variant))
            self._manifest.end(variant, self._plan, facts_changed=[], findings=findings)

    async def _measure(self, variant: ResolvedVariant, samples: list[Sample]) -> None:
        """Asks `samples`, on a second launch if the first dies. Ends as complete, stopped, refused or failed."""
        work = self._work(variant, samples)
        reason, again = "", "started" if variant.config.endpoint is None else "attached"
        for launch in range(1, _MAX_LAUNCHES + 1):
            if reason:
                self._reporter.note(f"{variant.name}: {reason}; it is {again} once more")
            try:
                await self._launch(variant, work, launch)
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
        samples, remaining = self._plan.samples_of(variant), Remaining(missing)
        haystacks = sorted(group_by_haystack(samples), key=lambda haystack: self._order[haystack.haystack_id])
        answered = {sample.sample_id for sample in samples if sample not in remaining}
        records = [record for record in self._run.records(variant.name) if record.sample_id in answered]
        blocks = Blocks(haystacks, sum(self._tokens[sample.sample_id] for sample in samples), records)
        return Work(remaining, blocks, FactsWatch(self._run, variant.name, blocks.answered))

    def _give_up(self, variant: ResolvedVariant, error: FactsError | EngineError | ResumeError) -> None:
        """Notes why a variant is not measured. Raises `error` if the run makes no sense without the variant."""
        if isinstance(error, ResumeError):
            raise error
        status = "refused" if isinstance(error, FactsError) else "failed"
        self._manifest.update(variant, status=status, reason=str(error))
        self._reporter.note(f"{variant.name}: not measured: {error}")
        if variant.role == "baseline":
            raise error

    async def _launch(self, variant: ResolvedVariant, work: Work, launch: int) -> None:
        launches = self._manifest.of(variant).launches + 1
        self._manifest.update(variant, status="running", reason=None, launches=launches)
        log_path = self._run.engine_log_path(variant.name)
        async with open_session(
            self._plan, variant, log_path, open_engine=self._open_engine, on_status=self._reporter.status
        ) as session:
            for stage in self._stages:
                await stage.started(session)
            self._reporter.status("asking smoke questions")
            await self._establish(session, work, launch)
            self._reporter.status("asking")
            ask = partial(self._ask, session, is_last_launch=launch == _MAX_LAUNCHES)
            await self._reuser.take(session, work, ask)
            await ask(work)
            for stage in self._stages:
                try:
                    await stage.run(session)
                except (EngineError, FactsError) as error:
                    self._reporter.note(f"{variant.name}: {error}")
            with contextlib.suppress(EngineError):
                # Every sample is answered. If a stage broke the server, the stage says so.
                await work.watch.look(session, work.blocks.answered, is_last=True)

    async def _establish(self, session: Session, work: Work, launch: int) -> None:
        """Writes facts, smoke answers and findings down before the first sample."""
        variant, baseline = session.variant, self._manifest.baseline
        current, is_baseline = self._manifest.of(variant), variant.role == "baseline"
        before = current.facts
        established = await session.establish(
            [sample.prompt for sample in self._plan.samples],
            Facts() if is_baseline else baseline.facts,
            SmokeResult() if is_baseline else baseline.smoke,
        )
        if before.is_established and launch > 1:
            work.watch.compare(before, established.facts, work.blocks.answered)
        if before.is_established:
            window = self._plan.max_model_len if self._plan.growth else None
            check_same_engine(
                variant.name, before, established.facts, is_resumed=launch == 1, grown_max_model_len=window
            )
        findings = with_findings(established.findings, judge_partner(variant, self._plan.variants))
        findings = with_findings(findings, [*(self._plan.findings if is_baseline else ()), *kept_findings(current)])
        self._manifest.update(
            variant, facts=established.facts, facts_changed=[], smoke=established.smoke, findings=findings
        )
        refusal = established.refusal(self._plan.config.accept_findings)
        if refusal is not None:
            raise FactsError(refusal)

    async def _ask(self, session: Session, work: Work, *, is_last_launch: bool) -> None:
        variant = session.variant
        async with session.client() as client:
            asker = SampleAsker(
                plan=self._plan,
                run=self._run,
                reporter=self._reporter,
                session=session,
                client=client,
                work=work,
                order=self._order,
                tokens=self._tokens,
                is_last_launch=is_last_launch,
            )
            try:
                await asker.ask()
            finally:
                plan, records = self._plan, self._run.records(variant.name)
                answers = answer_findings(records, tool_tasks=plan.tool_tasks, markers=plan.reasoning.markers)
                self._manifest.update(variant, **asker.counted.changes(variant, self._manifest.of(variant), answers))
