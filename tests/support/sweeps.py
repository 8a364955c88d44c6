"""Runs a sweep against scripted servers, and reads what it wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kveval.measure.plan.plan import Plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.run.directory import RunDirectory
from kveval.run.manifest import Manifest, VariantRun
from kveval.run.records import Record
from support.scripted import Oracle, Reply, ScriptedEngines
from support.scripted_endpoint import ScriptedEndpoint

Planner = Callable[..., Plan]
Servers = dict[str, ScriptedEndpoint]


async def run(plan: Plan, out: Path, engines: ScriptedEngines, *, resume: bool = False, **options: Any) -> Manifest:
    return await sweep(plan, out, resume=resume, open_engine=engines, **{"reporter": SilentReporter(), **options})


def records(out: Path, variant: str) -> list[Record]:
    return list(RunDirectory(out).records(variant))


def outcomes(out: Path, variant: str) -> Counter[str]:
    return Counter(record.outcome for record in records(out, variant))


def is_smoke(body: dict[str, Any]) -> bool:
    return "cache_salt" in body


class Nth:
    """`reply` for the n-th question (from 0; all of them at `every`), the oracle's answer for the others."""

    def __init__(self, oracle: Oracle, reply: Reply, *, at: int | None = None, every: int | None = None) -> None:
        self.oracle, self.reply, self.at, self.every = oracle, reply, at, every
        self.count = 0

    def __call__(self, prompt: list[int], body: dict[str, Any]) -> Reply:
        if is_smoke(body):
            return self.oracle(prompt, body)
        number, self.count = self.count, self.count + 1
        hit = number == self.at if self.every is None else number % self.every == 0
        return self.reply if hit else self.oracle(prompt, body)


async def attached_run(plan: Plan, out: Path, *, resume: bool = False, **options: Any) -> Manifest:
    """As `run`, of servers that the plan's variants name."""
    return await sweep(plan, out, resume=resume, reporter=SilentReporter(), **options)


def endpoint(server: ScriptedEndpoint, **keys: Any) -> dict[str, Any]:
    return {"url": server.base_url, "model": "served", **keys}


def codes(variant: VariantRun) -> dict[str, str]:
    """Levels of a variant's findings, by code."""
    return {finding.code: finding.level for finding in variant.findings}


def revoke_after(
    server: ScriptedEndpoint, plan: Plan, answers: int, change: Callable[[ScriptedEndpoint], None]
) -> None:
    """Changes `server` once it has answered so many samples of `plan`."""
    handler, known = server.handler, {tuple(sample.prompt.token_ids().tolist()) for sample in plan.samples}
    answered = 0

    def handle(prompt: list[int], body: dict[str, Any]) -> Reply:
        nonlocal answered
        is_sample = tuple(prompt) in known and body.get("cache_salt") != "kveval-smoke"
        answered += is_sample
        if is_sample and answered == answers + 1:
            change(server)
        return handler(prompt, body)

    server.handler = handle
