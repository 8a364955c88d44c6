"""One server of one variant: launched or attached to, checked to do what was asked, and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kveval.engines.base import Engine, OnStatus, OpenEngine, ServerPlan
from kveval.engines.client.client import Client
from kveval.engines.presence import Presence, presence
from kveval.engines.reading.forced import ForcedDecoder, why_not_forced
from kveval.engines.reading.reader import ProbabilityReader, unforced_finding
from kveval.engines.reading.stepwise import StepwiseDecoder
from kveval.engines.smoke import plain_prompt, smoke
from kveval.engines.variants import ResolvedVariant
from kveval.run.facts import Facts, Finding, SecondLook, with_findings
from kveval.run.manifest import SmokeResult
from kveval.run.same_model import model_findings
from kveval.tasks.sample import Prompt

# No model would go on so by itself.
_FORCED_TEXT = " Seventeen violet umbrellas"


@dataclass(frozen=True, slots=True)
class Established:
    """What is known of a running server before its first question."""

    facts: Facts
    smoke: SmokeResult
    findings: list[Finding]

    def refusal(self, accepted: Collection[str]) -> str | None:
        """Returns why the variant must not be measured: its first error finding that is not accepted by name."""
        for finding in self.findings:
            if finding.level == "error" and finding.code not in accepted:
                return f"{finding.message} ({finding.code}; to measure it anyway: --accept-finding {finding.code})"
        return None


class Session:
    """A server that runs. Use `open_session` to get one.

    Attributes:
        ready_seconds: from the launch to a healthy server.
        facts: what `establish` found; nothing before.
    """

    def __init__(
        self, plan: ServerPlan, variant: ResolvedVariant, engine: Engine, log_path: Path, ready_seconds: float
    ) -> None:
        self.variant = variant
        self.engine = engine
        self.ready_seconds = ready_seconds
        self.established = Established(Facts(), SmokeResult(), [])
        self._plan = plan
        self._log_path = log_path
        self._presence = Presence()

    @property
    def facts(self) -> Facts:
        return self.established.facts

    def client(self, **requests: object) -> Client:
        """Returns a client of the server. `requests` replaces keys of the configuration's ``requests``."""
        prompt_format = self._plan.prompt_format
        return Client(
            self.engine.base_url,
            self.engine.model_name,
            self._plan.config.requests.model_copy(update=requests),
            self.engine.exit_message,
            access=self.engine.access,
            spell=prompt_format.spell,
            ids_by_text=lambda: prompt_format.ids_by_text,
        )

    def decoder(self, client: Client, temperature: float) -> ForcedDecoder | None:
        """Returns what forces texts on the server. None if it was not seen to work."""
        folder = self.engine.forced_results
        return ForcedDecoder(client, folder, temperature) if folder and self.facts.forced_decode else None

    def reader(self, client: Client, temperature: float) -> ProbabilityReader | None:
        """Returns what reads the probabilities of texts on the server. None if nothing was seen to work.

        Args:
            temperature: of the probabilities, where outputs can be forced.
        """
        return self.decoder(client, temperature) or (self._stepwise(client) if self.facts.stepwise else None)

    def _stepwise(self, client: Client) -> StepwiseDecoder:
        return StepwiseDecoder(client, self._plan.config.requests.max_in_flight)

    async def establish(self, prompts: Sequence[Prompt], baseline: Facts, baseline_smoke: SmokeResult) -> Established:
        """Asks the smoke questions, reads the facts and judges both against the baseline's.

        Args:
            prompts: what smoke questions may be made of.
            baseline: the baseline's facts; not established for the baseline itself, or if it never ran.
        """
        async with self.client() as client:
            facts = await self.engine.facts()
            smoke_result, smoke_findings = await smoke(
                client, prompts, facts, baseline_smoke.perplexity, baseline_smoke
            )
            has_prefix_cache = bool(facts.prefix_caching or smoke_result.cached_tokens_of_repeat)
            forced, stepwise, forced_findings = await self._check_readers(client, baseline, has_prefix_cache)
        facts = _with_capacity_ratio(await self.engine.facts(), baseline)
        facts = facts.model_copy(update={"forced_decode": forced, "stepwise": stepwise})
        findings = self.engine.findings(facts, baseline if baseline.is_established else None)
        if baseline.is_established:
            findings = with_findings(findings, self._model_findings(facts, baseline))
        self.established = Established(facts, smoke_result, [*findings, *smoke_findings, *forced_findings])
        self._presence = await self._look_at_processes()
        return self.established

    def _model_findings(self, facts: Facts, baseline: Facts) -> Iterable[Finding]:
        models = self._plan.models
        theirs = models.get(self._plan.config.baseline)
        is_same_model = theirs is None or theirs.path == models[self.variant.name].path
        config = self.variant.config
        return model_findings(
            facts,
            baseline,
            is_same_model=is_same_model,
            engine_args=config.engine_args,
            declared_max_model_len=config.endpoint.declared.max_model_len if config.endpoint else None,
        )

    async def look_again(self) -> SecondLook:
        """Reads the facts once more and compares them with those of `establish`. Costs a few small requests.

        Raises:
            EngineError: the server does not answer.
        """
        look = self.facts.compared_with(await self.engine.facts())
        elsewhere = dict(self._presence.compared_with(await self._look_at_processes()))
        return SecondLook({**look.changed, **elsewhere}, look.untold)

    async def _look_at_processes(self) -> Presence:
        # Looking through the processes of a large machine takes a moment, in which answers arrive.
        return await asyncio.to_thread(lambda: presence(self.engine.processes(), self.engine.base_url, self._log_path))

    async def _check_readers(
        self, client: Client, baseline: Facts, has_prefix_cache: bool
    ) -> tuple[bool | None, bool | None, list[Finding]]:
        """Returns whether outputs can be forced, whether texts can be read stepwise, and what a reviewer must know."""
        if not self._plan.config.requests.forced_decode:
            return None, None, []
        prompt_ids = plain_prompt(self._plan.prompt_format).token_ids()
        text_ids = self._plan.prompt_format.encode(_FORCED_TEXT).tolist()
        forced, why = None, why_not_forced(self._plan, self.variant)
        if baseline.stepwise:
            why = why or "the baseline's are not, and only what is read alike is compared"
        elif self.engine.forced_results is not None:
            why = await ForcedDecoder(client, self.engine.forced_results, 1.0).check(prompt_ids, text_ids)
            forced = why is None
        if why is None:
            return forced, None, []
        stepwise, why_not = None, "the baseline's are not read so"
        if not has_prefix_cache:
            why_not = "without a prefix cache, each token would take a prefill of its own"
        elif baseline.stepwise or not baseline.is_established:
            problem = await self._stepwise(client).check(prompt_ids, text_ids)
            stepwise, why_not = problem is None, str(problem)
        return forced, stepwise, [unforced_finding(forced, why, None if stepwise else why_not)]


@contextlib.asynccontextmanager
async def open_session(
    plan: ServerPlan, variant: ResolvedVariant, log_path: Path, *, open_engine: OpenEngine, on_status: OnStatus
) -> AsyncIterator[Session]:
    """Launches the server of a variant, or attaches to it, and stops at the end what was launched.

    Raises:
        EngineError: the server cannot be started or reached.
        FactsError: an attached server has another model.
    """
    is_launched = variant.config.endpoint is None
    on_status("starting the engine" if is_launched else "attaching to the server")
    engine = open_engine(plan, variant, log_path)
    try:
        launched = time.monotonic()
        await engine.start(on_status)
        yield Session(plan, variant, engine, log_path, time.monotonic() - launched)
    finally:
        on_status("stopping the engine" if is_launched else "leaving the server as it is")
        await engine.stop()


def _with_capacity_ratio(facts: Facts, baseline: Facts) -> Facts:
    if not baseline.kv_capacity_tokens or not facts.kv_capacity_tokens:
        return facts
    ratio = round(facts.kv_capacity_tokens / baseline.kv_capacity_tokens, 4)
    return facts.model_copy(update={"kv_capacity_ratio": ratio})
