"""One launch of one variant: the server is started, checked, asked, and stopped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from kveval.engines.base import OpenEngine
from kveval.engines.session import Session, open_session
from kveval.engines.speculation import judge_partner
from kveval.engines.variants import ResolvedVariant
from kveval.errors import EngineError, FactsError
from kveval.measure.asker import SampleAsker
from kveval.measure.launching.work import Work
from kveval.measure.manifest_file import ManifestFile
from kveval.measure.plan.manifest import check_same_engine
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import Reporter
from kveval.measure.reuse.reuser import Reuser
from kveval.measure.stages.stage import Stage
from kveval.measure.watch.answers import answer_findings
from kveval.measure.watch.counters import kept_findings
from kveval.run.directory import RunDirectory
from kveval.run.facts import Facts, with_findings
from kveval.run.manifest import SmokeResult

MAX_LAUNCHES = 2


class Launcher:
    """Launches the variants of a sweep.

    Args:
        order: the place of every haystack in the order of asking, by its id.
        tokens: prompt and output tokens of each sample, by its id.
        stages: what else to do with every server after its samples are answered.
        reuser: takes answers of earlier runs.
    """

    def __init__(
        self,
        plan: Plan,
        run: RunDirectory,
        manifest: ManifestFile,
        reporter: Reporter,
        *,
        order: Mapping[str, int],
        tokens: Mapping[str, int],
        stages: Sequence[Stage],
        reuser: Reuser,
        open_engine: OpenEngine,
    ) -> None:
        self._plan = plan
        self._run = run
        self._manifest = manifest
        self._reporter = reporter
        self._order = order
        self._tokens = tokens
        self._stages = stages
        self._reuser = reuser
        self._open_engine = open_engine

    async def launch(self, variant: ResolvedVariant, work: Work, number: int) -> None:
        """Starts the server of `variant`, asks what remains of `work`, and runs the stages.

        Raises:
            ServerBrokenError, FactsChangedError: the server broke or changed. What is not answered remains.
            FactsError, EngineError, ResumeError: nothing could be asked.
        """
        launches = self._manifest.of(variant).launches + 1
        self._manifest.update(variant, status="running", reason=None, launches=launches)
        log_path = self._run.engine_log_path(variant.name)
        started, before = time.monotonic(), self._manifest.of(variant).server_seconds
        try:
            await self._serve(variant, work, number, log_path)
        finally:
            seconds = round(before + time.monotonic() - started, 3)
            self._manifest.update(variant, server_seconds=seconds)

    async def _serve(self, variant: ResolvedVariant, work: Work, number: int, log_path: Path) -> None:
        async with open_session(
            self._plan, variant, log_path, open_engine=self._open_engine, on_status=self._reporter.status
        ) as session:
            for stage in self._stages:
                await stage.started(session)
            self._reporter.status("asking smoke questions")
            await self._establish(session, work, number)
            self._reporter.status("asking")
            ask = partial(self._ask, session, is_last_launch=number == MAX_LAUNCHES)
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

    async def _establish(self, session: Session, work: Work, number: int) -> None:
        """Writes facts, smoke answers and findings down before the first sample."""
        variant, baseline = session.variant, self._manifest.baseline
        current, is_baseline = self._manifest.of(variant), variant.role == "baseline"
        before = current.facts
        established = await session.establish(
            [sample.prompt for sample in self._plan.samples],
            Facts() if is_baseline else baseline.facts,
            SmokeResult() if is_baseline else baseline.smoke,
        )
        if before.is_established and number > 1:
            work.watch.compare(before, established.facts, work.blocks.answered)
        if before.is_established:
            window = self._plan.max_model_len if self._plan.growth else None
            check_same_engine(
                variant.name, before, established.facts, is_resumed=number == 1, grown_max_model_len=window
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
