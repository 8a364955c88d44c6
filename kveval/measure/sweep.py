"""The only orchestrator: one launch per variant, the same samples for all, everything written down as it comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kveval.engines.base import Engine
from kveval.engines.client.client import Client
from kveval.engines.openai.facts import judge_attached
from kveval.engines.smoke import smoke
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.engine import VLLMEngine
from kveval.engines.vllm.facts import counters, judge_facts
from kveval.engines.vllm.speculation import judge_partner, with_drafts_judged
from kveval.errors import EngineError, FactsError, ResumeError
from kveval.measure import provenance
from kveval.measure.attach import attach
from kveval.measure.cold import ColdCheck
from kveval.measure.plan.identity import check_same_engine, check_same_run, new_manifest
from kveval.measure.plan.launchable import Launchable
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import Reporter
from kveval.measure.records import record_of, request_of, sample_row, with_failed_scorers
from kveval.measure.schedule import Remaining, ask_all, cold_tokens, group_by_haystack, prefill_shares
from kveval.measure.sharing import planned_hit_tokens, with_sharing_judged
from kveval.measure.stage import Stage
from kveval.run.directory import RunDirectory
from kveval.run.facts import Facts
from kveval.run.findings import Finding
from kveval.run.manifest import Manifest
from kveval.tasks.task import Sample

EngineFactory = Callable[[Plan, ResolvedVariant, Path], Engine]

# Failures of the server in a row after which it counts as broken, though its process may live on.
_FAILURES_IN_A_ROW = 5
_LAUNCHES = 2


class _ServerBrokenError(Exception):
    """The server died, or fails every request."""


def launch_vllm(plan: Launchable, variant: ResolvedVariant, log_path: Path) -> Engine:
    return VLLMEngine(
        variant,
        config=plan.config.engine,
        installation=plan.installation,
        model=plan.models[variant.name].path,
        max_model_len=plan.max_model_len,
        logprobs=plan.config.requests.logprobs,
        log_path=log_path,
    )


def open_engine(plan: Launchable, variant: ResolvedVariant, log_path: Path) -> Engine:
    """The server of a variant: the one it names, or one to launch. Raises ConfigError: its key is not set."""
    endpoint = variant.config.endpoint
    return launch_vllm(plan, variant, log_path) if endpoint is None else attach(plan, variant, endpoint, log_path)


async def sweep(
    plan: Plan,
    out: Path,
    *,
    resume: bool,
    reporter: Reporter,
    retry_errors: bool = False,
    stages: Sequence[Stage] = (),
    engine_factory: EngineFactory = open_engine,
) -> Manifest:
    """Runs `plan` into the run directory `out`.

    Args:
        retry_errors: on resume, ask again what ended as ``engine_error``.
        stages: what else is done with every server once its samples are answered.

    Returns:
        The final manifest. Its status is ``complete`` only if every variant answered every sample.

    Raises:
        RunDirectoryError: `out` holds another run, or another sweep writes there.
        ResumeError: `out` was made with other inputs.
        FactsError: the baseline does something other than it was asked to.
        EngineError: the baseline could not be started.
    """
    run = RunDirectory(out)
    with run.locked():
        run.check_usable(resume=resume)
        manifest = _manifest(run, plan)
        return await _Sweep(plan, run, manifest, reporter, retry_errors, stages, engine_factory).run()


def _manifest(run: RunDirectory, plan: Plan) -> Manifest:
    fresh = new_manifest(plan)
    if not run.exists():
        return fresh
    manifest = run.read_manifest()
    check_same_run(manifest, fresh)
    variants = {name: manifest.variants.get(name, new) for name, new in fresh.variants.items()}
    return manifest.model_copy(update={"status": "running", "finished": None, "variants": variants})


class _Sweep:
    def __init__(
        self,
        plan: Plan,
        run: RunDirectory,
        manifest: Manifest,
        reporter: Reporter,
        retry_errors: bool,
        stages: Sequence[Stage],
        engine_factory: EngineFactory,
    ) -> None:
        self._plan = plan
        self._run = run
        self._manifest = manifest
        self._reporter = reporter
        self._retry_errors = retry_errors
        self._cold = ColdCheck(plan, run, manifest, reporter, self._client, retry_errors=retry_errors)
        self._stages = [self._cold, *stages]
        self._engine_factory = engine_factory
        self._tokens = prefill_shares(plan.samples)
        self._missing = {variant.name: self._unanswered(variant) for variant in plan.variants}

    def _unanswered(self, variant: ResolvedVariant) -> list[Sample]:
        answered = {
            record.sample_id
            for record in self._run.records(variant.name)
            if not (self._retry_errors and record.outcome == "engine_error")
        }
        return [sample for sample in self._plan.samples_of(variant) if sample.sample_id not in answered]

    async def run(self) -> Manifest:
        self._run.write_samples(sample_row(sample) for sample in self._plan.samples)
        self._run.write_manifest(self._manifest)
        total = sum(
            self._weight(self._plan.samples_of(variant)) + sum(map(cold_tokens, self._cold.samples_of(variant)))
            for variant in self._plan.variants
        )
        left = sum(
            self._weight(self._missing[variant.name]) + sum(map(cold_tokens, self._cold.missing(variant)))
            for variant in self._plan.variants
        )
        self._reporter.begin(total, total - left)
        try:
            for variant in self._plan.variants:
                samples, cold = self._missing[variant.name], self._cold.missing(variant)
                planned = len(self._plan.samples_of(variant)) + len(self._cold.samples_of(variant))
                self._reporter.variant(variant.name, planned, planned - len(samples) - len(cold))
                if samples:
                    await self._measure(variant, samples)
                elif any(stage.is_missing(variant) for stage in self._stages):
                    await self._stages_only(variant)
                elif self._manifest.variants[variant.name].status != "complete":
                    self._update(variant, status="complete", reason=None)
        finally:
            self._finish()
        return self._manifest

    def _finish(self) -> None:
        variants = {
            name: variant.model_copy(update={"status": "stopped", "reason": "interrupted"})
            if variant.status == "running"
            else variant
            for name, variant in self._manifest.variants.items()
        }
        complete = all(variant.status == "complete" for variant in variants.values())
        self._manifest = self._manifest.model_copy(
            update={
                "status": "complete" if complete else "incomplete",
                "finished": provenance.now(),
                "variants": variants,
            }
        )
        self._run.write_manifest(self._manifest)
        self._run.write_parquet(self._manifest.variants)

    def _weight(self, samples: list[Sample]) -> int:
        return sum(self._tokens[sample.sample_id] for sample in samples)

    def _update(self, variant: ResolvedVariant, **changes: Any) -> None:
        current = self._manifest.variants[variant.name].model_copy(update=changes)
        self._manifest = self._manifest.model_copy(
            update={"variants": {**self._manifest.variants, variant.name: current}}
        )
        self._run.write_manifest(self._manifest)

    async def _measure(self, variant: ResolvedVariant, samples: list[Sample]) -> None:
        """Asks `samples`, over a second launch if the first dies. Ends as complete, stopped, refused or failed."""
        remaining = Remaining(samples)
        reason, again = "", "started" if variant.config.endpoint is None else "attached"
        for launch in range(1, _LAUNCHES + 1):
            if reason:
                self._reporter.note(f"{variant.name}: {reason}; it is {again} once more")
            try:
                await self._measure_once(variant, remaining, is_last_launch=launch == _LAUNCHES)
            except _ServerBrokenError as error:
                reason = str(error).removeprefix(f"{variant.name}: ")
                remaining.suspect_in_flight()
                continue
            except (FactsError, EngineError, ResumeError) as error:
                if reason:
                    reason = f"{reason}; {again} once more: {error}"
                    break
                if isinstance(error, ResumeError):
                    raise
                self._update(
                    variant, status="refused" if isinstance(error, FactsError) else "failed", reason=str(error)
                )
                self._reporter.note(f"{variant.name}: not measured: {error}")
                if variant.role == "baseline":
                    raise
                return
            findings = self._manifest.variants[variant.name].findings
            if reason:
                message = f"{reason}; it was {again} once more: the answers come from two launches"
                findings = [*findings, Finding(level="warning", code="engine_restarted", message=message)]
            self._update(variant, status="complete", reason=None, findings=findings)
            return
        self._update(variant, status="stopped", reason=reason)
        self._reporter.note(f"{variant.name}: stopped with what it has: {reason}")

    async def _stages_only(self, variant: ResolvedVariant) -> None:
        """Every sample is answered already: whatever becomes of this launch, the variant is complete."""
        try:
            await self._measure(variant, [])
        finally:
            self._update(variant, status="complete", reason=None)

    async def _measure_once(self, variant: ResolvedVariant, remaining: Remaining, *, is_last_launch: bool) -> None:
        self._update(
            variant, status="running", reason=None, launches=self._manifest.variants[variant.name].launches + 1
        )
        is_ours = variant.config.endpoint is None
        self._reporter.status("starting the engine" if is_ours else "attaching to the server")
        engine = self._engine_factory(self._plan, variant, self._run.engine_log_path(variant.name))
        try:
            launched = time.monotonic()
            await engine.start(self._reporter.status)
            for stage in self._stages:
                await stage.started(variant, engine, launched)
            async with self._client(engine) as client:
                self._reporter.status("asking smoke questions")
                facts = await self._establish(variant, engine, client)
                self._reporter.status("asking")
                await self._ask(variant, engine, client, facts, remaining, is_last_launch)
            for stage in self._stages:
                await self._run_stage(stage, variant, engine, facts)
        finally:
            self._reporter.status("stopping the engine" if is_ours else "leaving the server as it is")
            await engine.stop()

    def _client(self, engine: Engine) -> Client:
        return Client(
            engine.base_url,
            engine.model_name,
            self._plan.config.requests,
            engine.exit_message,
            access=engine.access,
            spell=self._plan.prompt_format.spell,
            ids_by_text=lambda: self._plan.prompt_format.ids_by_text,
        )

    async def _run_stage(self, stage: Stage, variant: ResolvedVariant, engine: Engine, facts: Facts) -> None:
        try:
            await stage.run(variant, engine, facts)
        except (EngineError, FactsError) as error:
            self._reporter.note(f"{variant.name}: {error}")

    async def _establish(self, variant: ResolvedVariant, engine: Engine, client: Client) -> Facts:
        """Facts and smoke questions, stored before the first sample.

        Raises:
            FactsError: a finding of level error that the configuration does not accept.
            ResumeError: the engine is not the one the run was begun with.
        """
        before = self._manifest.variants[variant.name].facts
        baseline_run = self._manifest.variants[self._manifest.baseline]
        is_baseline = variant.role == "baseline"
        smoke_result, findings = await smoke(
            client,
            self._plan.samples,
            await engine.facts(),
            None if is_baseline else baseline_run.smoke.get("perplexity"),
        )
        facts = await engine.facts()
        baseline = None if is_baseline or not baseline_run.facts.is_established else baseline_run.facts
        if baseline and baseline.kv_capacity_tokens and facts.kv_capacity_tokens:
            ratio = round(facts.kv_capacity_tokens / baseline.kv_capacity_tokens, 4)
            facts = facts.model_copy(update={"kv_capacity_ratio": ratio})
        judge = judge_facts if variant.config.endpoint is None else judge_attached
        findings = judge(facts, variant, baseline) + judge_partner(variant, self._plan.variants) + findings
        if before.is_established:
            check_same_engine(variant.name, before, facts)
        self._update(variant, facts=facts, smoke=smoke_result, findings=findings)
        refused = [
            finding
            for finding in findings
            if finding.level == "error" and finding.code not in self._plan.config.accept_findings
        ]
        if refused:
            raise FactsError(
                f"{refused[0].message} ({refused[0].code}; to measure it all the same: "
                f"--accept-finding {refused[0].code})"
            )
        return facts

    async def _ask(
        self,
        variant: ResolvedVariant,
        engine: Engine,
        client: Client,
        facts: Facts,
        remaining: Remaining,
        is_last_launch: bool,
    ) -> None:
        failures = 0
        answered: list[Sample] = []

        async def ask(sample: Sample) -> None:
            nonlocal failures
            remaining.begin(sample)
            answer = await client.ask(request_of(sample))
            if answer.is_refusal:
                raise _ServerBrokenError(f"{variant.name}: {answer.error_message}")
            other = await client.other_model()
            if other:
                raise _ServerBrokenError(f"{variant.name}: {other}")
            broken = engine.exit_message()
            if broken is None and answer.is_server_failure and not await client.is_healthy():
                broken = f"{variant.name}: the server is not healthy; {answer.error_message}"
            if broken and answer.is_server_failure and not is_last_launch:
                raise _ServerBrokenError(broken)
            # Scoring may run code for seconds; other answers' timestamps must not wait for it.
            record = await asyncio.to_thread(record_of, sample, self._plan.tasks[sample.task], variant.name, answer)
            self._run.append(record)
            remaining.done(sample)
            answered.append(sample)
            self._reporter.answered(record, self._tokens[sample.sample_id])
            failures = failures + 1 if answer.is_server_failure else 0
            if failures >= _FAILURES_IN_A_ROW:
                broken = broken or f"{failures} requests in a row failed, the last with {answer.error_message}"
            if broken:
                raise _ServerBrokenError(broken)

        async def ask_each(samples: list[Sample], most_in_flight: int) -> None:
            await ask_all(
                group_by_haystack(samples),
                ask,
                capacity_tokens=facts.kv_capacity_tokens,
                max_in_flight=most_in_flight,
                block_size=facts.block_size or 16,
            )

        before = counters(await client.metrics_text())
        started = time.monotonic()
        try:
            await ask_each(
                remaining.unsuspected(), min(self._plan.config.requests.max_in_flight, facts.max_num_seqs or 1 << 30)
            )
            await ask_each(remaining.suspects(), 1)
        finally:
            seconds = time.monotonic() - started
            planned_hits = planned_hit_tokens(answered, facts.block_size or 16)
            self._count(variant, before, counters(await client.metrics_text()), seconds, planned_hits)

    def _count(
        self,
        variant: ResolvedVariant,
        before: dict[str, float],
        after: dict[str, float],
        seconds: float,
        planned_hits: int,
    ) -> None:
        """Adds what the engine counted since `before` to what earlier launches of this variant counted."""
        current = self._manifest.variants[variant.name]
        added = {name: value - before.get(name, 0.0) for name, value in after.items()}
        totals = {
            name: current.counters.get(name, 0.0) + added.get(name, 0.0)
            for name in current.counters.keys() | added.keys()
        }
        planned_hits += current.planned_hit_tokens
        findings = with_drafts_judged(variant, current.findings, totals)
        findings = with_sharing_judged(current.facts, findings, totals, planned_hits)
        findings = with_failed_scorers(findings, self._run.records(variant.name))
        self._update(
            variant,
            counters=totals,
            planned_hit_tokens=planned_hits,
            findings=findings,
            asking_seconds=round(current.asking_seconds + seconds, 3),
        )
