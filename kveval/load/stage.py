"""Load on one running server after another, ``load.json`` written after each level."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

from kveval.engines.base import Engine
from kveval.engines.client.client import Client
from kveval.engines.session import Session
from kveval.engines.smoke import plain_prompt
from kveval.engines.variants import ResolvedVariant
from kveval.errors import FactsError
from kveval.load.document import open_document
from kveval.load.drive import drive, first_token
from kveval.load.plan import LoadPlan
from kveval.load.prompts import Remake, as_text, ordinary_tokens, with_own_beginning
from kveval.load.summary import summarize
from kveval.measure import provenance
from kveval.measure.plan.prompts import trusts_code
from kveval.run.facts import Facts
from kveval.run.load_results import LoadDocument, LoadVariant, write_load
from kveval.run.manifest import SmokeResult, VariantStatus

_DYING_SECONDS = 3.0
# A second attempt would hide the failure of the first, and alternatives cost the server time.
_REQUESTS = {"max_attempts": 1, "logprobs": 0}


class LoadStage:
    """Puts load on running servers, alone or after a sweep's samples."""

    def __init__(self, plan: LoadPlan, out: Path, *, resume: bool, on_status: Callable[[str, str], None]) -> None:
        self._plan = plan
        self._out = out
        self._on_status = on_status
        # A server that is still running may have seen these prompts. Under another salt they are new to it.
        self._salt = f"kveval-load-{uuid.uuid4().hex}"
        self._document = open_document(plan, out, resume=resume)
        self._has_measured = False

    def is_missing(self, variant: ResolvedVariant) -> bool:
        stored = self._document.variants.get(variant.name)
        return stored is not None and any(stored.result(level) is None for level in self._plan.levels)

    async def started(self, session: Session) -> None:
        """Asks for a first token, to see how long a cold start takes. Call it as soon as the server is healthy."""
        variant = session.variant
        if not self.is_missing(variant) or not session.engine.processes():
            return
        async with session.client(**_REQUESTS) as client:
            answer = await first_token(client, self._tokens(variant), self._salt)
        # Time spent between the two, such as reading the tokenizer, is not part of the server's start.
        cold_start_s = None if answer.ttft_ms is None else round(session.ready_seconds + answer.ttft_ms / 1000, 2)
        self._update(variant, startup_s=round(session.ready_seconds, 2), cold_start_s=cold_start_s)

    async def establish(self, session: Session) -> None:
        """Asks smoke questions and reads the facts. A sweep has done both before it runs this stage.

        Raises:
            FactsError: the server does something other than it was asked to.
        """
        variant, baseline = session.variant, self._document.variants[self._document.baseline]
        is_baseline = variant.role == "baseline"
        established = await session.establish(
            [plain_prompt(self._plan.prompt_format)],
            Facts() if is_baseline else baseline.facts,
            SmokeResult() if is_baseline else baseline.smoke,
        )
        refusal = established.refusal(self._plan.config.accept_findings)
        if refusal is not None:
            self._note(session)
            raise FactsError(refusal)

    async def run(self, session: Session) -> None:
        """Measures every level that is missing."""
        variant, engine = session.variant, session.engine
        if not self.is_missing(variant):
            return
        self._note(session, status="running", reason=None)
        # For the A/A run, the baseline's server may be asked twice. It has seen the first time's prompts.
        tokens, salt = self._tokens(variant), f"{self._salt}-{variant.name}"
        async with session.client(**_REQUESTS) as client:
            for number, level in enumerate(self._plan.levels, start=1):
                if self._document.variants[variant.name].result(level) is not None:
                    continue
                self._on_status(variant.name, f"load {number} of {len(self._plan.levels)}: {level.name}")
                driven = await drive(
                    level,
                    client,
                    tokens,
                    salt=salt,
                    remake=self._remake(client, tokens),
                    processes=engine.processes(),
                    sample_interval_s=self._plan.load.sample_interval_s,
                    is_gone=lambda: engine.exit_message() is not None,
                )
                gone = await _why_gone(engine, client)
                if gone is not None:
                    gone = gone.removeprefix(f"{variant.name}: ")
                    self.end(variant, "stopped", f"{level.name}: {gone}")
                    self._on_status(variant.name, f"stopped with what it has: {gone}")
                    return
                levels = [*self._document.variants[variant.name].levels, summarize(driven)]
                self._update(variant, levels=levels)
        self.end(variant, "complete", None)

    def end(self, variant: ResolvedVariant, status: VariantStatus, reason: str | None) -> None:
        """Writes down how the measurement of a variant ended, and why."""
        self._update(variant, status=status, reason=reason)

    def finish(self) -> LoadDocument:
        """Writes the document down. Call it last: a variant that still runs was interrupted."""
        if not self._has_measured:
            return self._document
        self._document = self._document.model_copy(update={"finished": provenance.now()})
        for name, variant in self._document.variants.items():
            if variant.status == "running":
                self._put(variant.model_copy(update={"status": "stopped", "reason": "interrupted"}), name)
        write_load(self._out, self._document)
        return self._document

    def _note(self, session: Session, **changes: Any) -> None:
        established = session.established
        self._update(
            session.variant,
            facts=established.facts,
            smoke=established.smoke,
            findings=established.findings,
            **changes,
        )

    def _remake(self, client: Client, tokens: tuple[int, ...]) -> Remake:
        dialect, steps = client.access.dialect, []
        if "cache_salt" in dialect.unknown_fields:
            steps.append(with_own_beginning(tokens, uuid.uuid4().hex))
        if dialect.prompt != "token_ids":
            steps.append(as_text(self._plan.prompt_format))
        return lambda prompt: reduce(lambda made, step: step(made), steps, prompt)

    def _tokens(self, variant: ResolvedVariant) -> tuple[int, ...]:
        return ordinary_tokens(self._plan.models[variant.name].path, trusts_code(self._plan.config))

    def _update(self, variant: ResolvedVariant, **changes: Any) -> None:
        self._put(self._document.variants[variant.name].model_copy(update=changes), variant.name)
        write_load(self._out, self._document)

    def _put(self, variant: LoadVariant, name: str) -> None:
        self._has_measured = True
        self._document = self._document.model_copy(update={"variants": {**self._document.variants, name: variant}})


async def _why_gone(engine: Engine, client: Client) -> str | None:
    """Returns why a server cannot be measured any further. Its last level is then worthless. None if it can."""
    # A dying server refuses connections some time before its process ends.
    if await client.is_healthy():
        return engine.exit_message() or await client.other_model()
    if engine.exit_message() is None:
        await asyncio.sleep(_DYING_SECONDS)
    return engine.exit_message() or "the server no longer answers"
