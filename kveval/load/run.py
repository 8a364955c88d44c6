"""One launch per variant, every level on it, ``load.json`` written after each."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import kveval
from kveval.config.environment import without_secrets
from kveval.engines.base import Engine
from kveval.engines.client.client import Client
from kveval.engines.openai.facts import judge_attached
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.facts import judge_facts
from kveval.errors import EngineError, FactsError, ResumeError, RunDirectoryError
from kveval.load.drive import drive, first_token
from kveval.load.plan import LoadPlan, load_plan_of
from kveval.load.prompts import Remake, as_text, ordinary_tokens, with_own_beginning
from kveval.load.summary import summarize
from kveval.measure import provenance
from kveval.measure.plan.plan import Plan
from kveval.measure.sweep import open_engine
from kveval.run.directory import RunDirectory
from kveval.run.facts import Facts
from kveval.run.load_results import LOAD_FILE, LoadDocument, LoadStatus, LoadVariant, read_load, write_load

_DYING_SECONDS = 3.0

LoadEngineFactory = Callable[[LoadPlan, ResolvedVariant, Path], Engine]
OnStatus = Callable[[str], None]


async def run_load(
    plan: LoadPlan,
    out: Path,
    *,
    resume: bool,
    on_status: OnStatus,
    engine_factory: LoadEngineFactory = open_engine,
) -> LoadDocument:
    """Measures `plan` into ``load.json`` of the run directory `out`. A server that fails costs its variant only.

    Raises:
        RunDirectoryError: `out` holds other load results, or another sweep writes there.
        ResumeError: they were made with other inputs.
    """
    run = RunDirectory(out)
    with run.locked():
        stage = LoadStage(plan, out, resume=resume, on_status=lambda name, text: on_status(f"{name}: {text}"))
        try:
            for variant in plan.variants:
                if stage.is_missing(variant):
                    engine = engine_factory(plan, variant, run.engine_log_path(variant.name))
                    await _measure(variant, engine, stage, on_status)
        finally:
            document = stage.finish()
        return document


async def _measure(variant: ResolvedVariant, engine: Engine, stage: LoadStage, on_status: OnStatus) -> None:
    def say(text: str) -> None:
        on_status(f"{variant.name}: {text}")

    try:
        launched = time.monotonic()
        await engine.start(say)
        await stage.started(variant, engine, launched)
        await stage.run(variant, engine, await engine.facts())
    except FactsError as error:
        say(f"not measured: {error}")
    except EngineError as error:
        stage.end(variant, "failed", str(error))
        say(f"not measured: {error}")
    finally:
        say("stopping the engine")
        await engine.stop()


def load_stage(plan: Plan, out: Path, *, resume: bool, on_status: OnStatus) -> LoadStage | None:
    """The load part of a sweep; None where none is asked for. Raises as `LoadStage` does."""
    if plan.config.load is None:
        return None
    # A sweep's status names the variant itself.
    stage_plan = load_plan_of(plan, plan.config.load)
    return LoadStage(stage_plan, out, resume=resume, on_status=lambda _, text: on_status(text))


class LoadStage:
    """Loads servers that run, for a measurement of its own or after a sweep's samples.

    Raises:
        RunDirectoryError: there are results already, and it is not to go on with them.
        ResumeError: they were made with other inputs.
    """

    def __init__(self, plan: LoadPlan, out: Path, *, resume: bool, on_status: Callable[[str, str], None]) -> None:
        self._plan = plan
        self._out = out
        self._on_status = on_status
        # Servers that outlive a measurement have seen its prompts; under another salt they are new to them.
        self._salt = f"kveval-load-{uuid.uuid4().hex}"
        self._document = _document(plan, out, resume=resume)
        self._has_measured = False

    def is_missing(self, variant: ResolvedVariant) -> bool:
        stored = self._document.variants.get(variant.name)
        return stored is not None and any(stored.result(level) is None for level in self._plan.levels)

    async def started(self, variant: ResolvedVariant, engine: Engine, launched: float) -> None:
        """Call it as soon as the server is healthy. `launched`: `time.monotonic` before its start."""
        if not self.is_missing(variant) or not engine.processes():
            return
        startup_s = time.monotonic() - launched
        async with self._client(engine) as client:
            answer = await first_token(client, self._tokens(variant), self._salt)
        # What lies between the two, such as reading the tokenizer here, is no part of the server's start.
        cold_start_s = None if answer.ttft_ms is None else round(startup_s + answer.ttft_ms / 1000, 2)
        self._update(variant, startup_s=round(startup_s, 2), cold_start_s=cold_start_s)

    async def run(self, variant: ResolvedVariant, engine: Engine, facts: Facts) -> None:
        """Every level that is missing.

        Raises:
            FactsError: the server does something other than it was asked to.
        """
        if not self.is_missing(variant):
            return
        self._update(variant, status="running", reason=None, **self._established(variant, facts))
        # A server that is asked twice, as its own noise floor, has seen the first time's prompts.
        tokens, salt = self._tokens(variant), f"{self._salt}-{variant.name}"
        async with self._client(engine) as client:
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

    def end(self, variant: ResolvedVariant, status: LoadStatus, reason: str | None) -> None:
        """Notes how the measurement of a variant ended, and why."""
        self._update(variant, status=status, reason=reason)

    def finish(self) -> LoadDocument:
        """Call it last; an interrupted variant is stopped with what it has."""
        if not self._has_measured:
            return self._document
        self._document = self._document.model_copy(update={"finished": provenance.now()})
        for name, variant in self._document.variants.items():
            if variant.status == "running":
                self._put(variant.model_copy(update={"status": "stopped", "reason": "interrupted"}), name)
        write_load(self._out, self._document)
        return self._document

    def _established(self, variant: ResolvedVariant, facts: Facts) -> dict[str, Any]:
        baseline = self._document.variants[self._document.baseline].facts
        against = None if variant.role == "baseline" or not baseline.is_established else baseline
        if against and against.kv_capacity_tokens and facts.kv_capacity_tokens:
            ratio = round(facts.kv_capacity_tokens / against.kv_capacity_tokens, 4)
            facts = facts.model_copy(update={"kv_capacity_ratio": ratio})
        judge = judge_facts if variant.config.endpoint is None else judge_attached
        findings = judge(facts, variant, against)
        established = {"facts": facts, "findings": findings}
        refused = [f for f in findings if f.level == "error" and f.code not in self._plan.config.accept_findings]
        if refused:
            reason = (
                f"{refused[0].message} ({refused[0].code}; to measure it all the same: "
                f"--accept-finding {refused[0].code})"
            )
            self._update(variant, status="refused", reason=reason, **established)
            raise FactsError(reason)
        return established

    def _client(self, engine: Engine) -> Client:
        # A second attempt would hide the first one's failure, and alternatives cost the server time.
        requests = self._plan.config.requests.model_copy(update={"max_attempts": 1, "logprobs": 0})
        spell = self._plan.prompt_format.spell
        return Client(
            engine.base_url, engine.model_name, requests, engine.exit_message, access=engine.access, spell=spell
        )

    def _remake(self, client: Client, tokens: tuple[int, ...]) -> Remake:
        dialect, steps = client.access.dialect, []
        if "cache_salt" in dialect.unknown_fields:
            steps.append(with_own_beginning(tokens, uuid.uuid4().hex))
        if dialect.prompt != "token_ids":
            steps.append(as_text(self._plan.prompt_format))
        return lambda prompt: reduce(lambda made, step: step(made), steps, prompt)

    def _tokens(self, variant: ResolvedVariant) -> tuple[int, ...]:
        return ordinary_tokens(self._plan.models[variant.name].path)

    def _update(self, variant: ResolvedVariant, **changes: Any) -> None:
        self._put(self._document.variants[variant.name].model_copy(update=changes), variant.name)
        write_load(self._out, self._document)

    def _put(self, variant: LoadVariant, name: str) -> None:
        self._has_measured = True
        self._document = self._document.model_copy(update={"variants": {**self._document.variants, name: variant}})


async def _why_gone(engine: Engine, client: Client) -> str | None:
    """Why a server cannot be loaded any further, so that its last level is none; None: it can."""
    # A dying server refuses connections some time before its process ends.
    if await client.is_healthy():
        return engine.exit_message() or await client.other_model()
    if engine.exit_message() is None:
        await asyncio.sleep(_DYING_SECONDS)
    return engine.exit_message() or "the server no longer answers"


def _document(plan: LoadPlan, out: Path, *, resume: bool) -> LoadDocument:
    fresh = LoadDocument(
        kveval_version=kveval.__version__,
        created=provenance.now(),
        baseline=plan.config.baseline,
        config=plan.load.model_dump(mode="json"),
        inputs=plan.inputs,
        max_model_len=plan.max_model_len,
        variants={v.name: LoadVariant(name=v.name, role=v.role, of=v.of, spec=_spec(plan, v)) for v in plan.variants},
        versions=provenance.versions(plan.installation.distribution, plan.installation.version),
        machine=provenance.machine(plan.installation.device_name),
        git=provenance.git_state(Path.cwd()),
        command=provenance.command(),
    )
    _check_same_model(out, fresh)
    stored = read_load(out)
    if stored is None:
        return fresh
    if not resume:
        raise RunDirectoryError(
            f"--out {out}: holds {LOAD_FILE} already; allowed: another folder, or --resume to go on with it"
        )
    names = sorted({*stored.inputs, *fresh.inputs})
    changed = [name for name in names if stored.inputs.get(name) != fresh.inputs.get(name)]
    if changed:
        raise ResumeError(
            f"--resume: {changed[0]} is not the one {LOAD_FILE} was made with; allowed: the same, or a new --out"
        )
    for name, new in fresh.variants.items():
        old = stored.variants.get(name)
        for key in new.spec:
            if old is not None and old.spec.get(key) != new.spec[key]:
                raise ResumeError(
                    f"--resume: {key} of {name} was {old.spec.get(key)!r} in {LOAD_FILE} and is {new.spec[key]!r} now; "
                    "allowed: the same, or a new --out"
                )
    kept = {"created": stored.created, "finished": stored.finished, "variants": fresh.variants | stored.variants}
    return fresh.model_copy(update=kept)


def _spec(plan: LoadPlan, variant: ResolvedVariant) -> dict[str, Any]:
    return {
        "kv_cache_dtype": variant.kv_cache_dtype,
        "endpoint": variant.config.endpoint.model_dump(mode="json") if variant.config.endpoint else None,
        "emulate": variant.emulate.model_dump(mode="json") if variant.emulate else None,
        "engine_args": plan.config.engine.args | variant.config.engine_args,
        "env": without_secrets(plan.config.engine.env | variant.config.env),
        "kv_cache_gib": plan.config.engine.kv_cache_gib,
        "model": str(plan.models[variant.name].path),
    }


def _check_same_model(out: Path, fresh: LoadDocument) -> None:
    """A run directory holds answers and speed of one model. Raises RunDirectoryError: `out` has another's answers."""
    run = RunDirectory(out)
    if not run.exists():
        return
    theirs = run.read_manifest().inputs
    for name in sorted(fresh.inputs.keys() & theirs.keys()):
        if fresh.inputs[name] != theirs[name]:
            raise RunDirectoryError(
                f"--out {out}: the answers there are of a model with another {name}; allowed: a folder of its own"
            )
