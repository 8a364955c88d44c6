"""Measures what kveval itself costs: one file per section of `scripts/bench`.

A section is a function that returns its figures as data for JSON. To add one, list it here. The sections in
`WITH_ENGINE` run after the others and share one server. Those in `_WHEN_NAMED` take long, and run only if they
are named.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks import (
    certainty,
    degeneration,
    expected,
    floors,
    fuzz,
    judge,
    kernels,
    load,
    overhead,
    prompts,
    report,
    sharing,
    soak,
    startup,
    tasks,
    trust,
)  # fmt: skip
from benchmarks.server import Server, serve
from kveval.measure import provenance

Figures = dict[str, Any]

ALONE: dict[str, Callable[[], Figures]] = {
    "startup": startup.measure,
    "prompts": prompts.measure,
    "tasks": tasks.measure,
    "degeneration": degeneration.measure,
    "judge": judge.measure,
    "certainty": certainty.measure,
    "kernels": kernels.measure,
    "trust": trust.measure,
    "report": report.measure,
    "floors": floors.measure,
    "expected": expected.measure,
    "fuzz": fuzz.measure,
}
WITH_ENGINE: dict[str, Callable[[Server], Awaitable[Figures]]] = {
    "overhead": overhead.measure,
    "sharing": sharing.measure,
    "load": load.measure,
}

_SOAK = "soak"
_WHEN_NAMED = ("judge", "certainty", "expected", "fuzz", _SOAK)


def main(arguments: list[str]) -> int:
    names = [*ALONE, *WITH_ENGINE, _SOAK]
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Prints one JSON document of measurements.")
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        help=f"all (the default) but {', '.join(_WHEN_NAMED)}; or of {', '.join(names)}",
    )
    soak.add_options(parser)
    options = parser.parse_args(arguments)
    wanted = options.sections or ["all"]
    unknown = sorted(set(wanted) - {*names, "all"})
    if unknown:
        parser.error(f"SECTION: {unknown[0]!r} is unknown; use: all, {', '.join(names)}")
    chosen = [name for name in names if name in wanted or ("all" in wanted and name not in _WHEN_NAMED)]

    figures: Figures = {}
    if _SOAK in chosen:
        say("soaking")
        figures[_SOAK] = soak.measure(options)
    for name in (name for name in ALONE if name in chosen):
        say(f"measuring {name}")
        figures[name] = ALONE[name]()
    engine_sections = [name for name in WITH_ENGINE if name in chosen]
    engine: Figures = {}
    if engine_sections:
        engine = asyncio.run(_with_engine(engine_sections, figures))
    document = {
        "made": provenance.now(),
        "machine": provenance.machine(engine.get("device_name")),
        "versions": provenance.versions(engine.get("distribution"), engine.get("version")),
        **figures,
    }
    print(json.dumps(document, indent=2, allow_nan=False))
    soaked = figures.get(_SOAK, {})
    return 1 if soaked.get("wrong") or soaked.get("unfinished") else 0


async def _with_engine(names: list[str], figures: Figures) -> Figures:
    async with serve(lambda status: say(f"engine: {status}")) as server:
        for name in names:
            say(f"measuring {name}")
            figures[name] = await WITH_ENGINE[name](server)
        installation = server.installation
    return {
        "device_name": installation.device_name,
        "distribution": installation.distribution,
        "version": installation.version,
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
