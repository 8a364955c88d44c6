"""Breaks harnesses, servers and disks on purpose, and checks how kveval ends: ``scripts/bench soak``.

Every case draws one fault (`benchmarks.soak.faults`) with its own seed, runs ``kveval sweep``, ``kveval gate`` and,
where that is the way on, ``--resume`` and the gate again. It checks exit codes, that no traceback was printed, that no
answer was lost, that no process is left, and that nothing took too long.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.soak import faults as _faults  # noqa: F401 - registers them
from benchmarks.soak.case import FAULTS, Case, codes, on_real_engine
from benchmarks.soak.commands import Ended
from benchmarks.soak.stage import CONFIG, REAL_CONFIG, VARIANTS, Stage
from kveval.config.sweep import SweepConfig
from kveval.engines.base import NOTHING_TO_LAUNCH
from kveval.measure.plan.plan import make_plan

# Of the questions that a healthy server answers rightly. Nobody judges a baseline that never fails.
_SKILL = 0.8
# Faults that come from outside, which a real engine cannot be told to make.
REAL = (
    "harness_killed", "launched_server_killed", "harness_interrupted", "files_limited", "nothing",
)  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("soak")
    group.add_argument("--cases", type=int, help="how many faults (default: 200, with --real 20)")
    group.add_argument("--real", action="store_true", help="let vLLM itself answer, and break what is around it")
    group.add_argument("--case", type=int, action="append", help="only the case of this number; may be repeated")
    group.add_argument("--fault", action="append", choices=sorted(FAULTS), help="only cases of this fault")
    group.add_argument("--once", action="store_true", help="every fault once at most")
    group.add_argument("--seed", type=int, default=0, help="of all cases (default: 0)")
    group.add_argument("--jobs", type=int, default=2, help="cases at once (default: 2)")
    group.add_argument("--keep", type=Path, help="a new folder that keeps what every wrong case left")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs the cases and returns what became of them. `wrong` is empty if every one ended as it should."""
    names = REAL if options.real else tuple(FAULTS)
    cases = len(names) if options.once else options.cases or (20 if options.real else 200)
    # Every fault comes once before any comes again.
    numbered = [(number, names[number % len(names)]) for number in range(cases)]
    chosen = [(number, name) for number, name in numbered if _is_chosen(options, number, name)]
    with tempfile.TemporaryDirectory(prefix="kveval-soak-") as scratch:
        folder = Path(scratch)
        answers, clock = None if options.real else folder / "answers.json", _clock(folder)
        # Planning also imports what every command then has at hand.
        right = _right_answers()
        if answers:
            answers.write_text(json.dumps(right))
        jobs = [
            multiprocessing.get_context("fork").Process(
                target=_run_all,
                args=(chosen[first :: options.jobs], options.seed, folder, folder / f"{first}.jsonl", options.keep),
                kwargs={"answers": answers, "clock": clock},
            )
            for first in range(options.jobs)
        ]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        done = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    done.sort(key=lambda one: one["case"])
    by_fault: dict[str, int] = {}
    for one in done:
        by_fault[one["fault"]] = by_fault.get(one["fault"], 0) + 1
    seconds = sorted(one["seconds"] for one in done)
    unfinished = sorted({number for number, _ in chosen} - {one["case"] for one in done})
    return {
        "seed": options.seed,
        "cases": len(chosen),
        "right": sum(not one["problems"] for one in done),
        "unfinished": unfinished,
        "by_fault": dict(sorted(by_fault.items())),
        "seconds_median": seconds[len(seconds) // 2] if seconds else None,
        "seconds_most": seconds[-1] if seconds else None,
        "wrong": [one for one in done if one["problems"]],
    }


def _is_chosen(options: argparse.Namespace, number: int, name: str) -> bool:
    return (not options.case or number in options.case) and (not options.fault or name in options.fault)


def draw(seed: int, number: int, name: str) -> Case:
    """Returns the case of this number: the same one every time."""
    return FAULTS[name](random.Random(f"{seed} {number} {name}"))  # noqa: S311 - to be drawn again


def _run_all(
    cases: list[tuple[int, str]],
    seed: int,
    folder: Path,
    results: Path,
    keep: Path | None,
    *,
    answers: Path | None,
    clock: Path | None,
) -> None:
    os.environ.update(COLUMNS="200", TOKENIZERS_PARALLELISM="false")
    for number, name in cases:
        case = draw(seed, number, name)
        if answers is None:
            case = on_real_engine(case, len(CONFIG["context_lengths"]) * REAL_CONFIG["samples"])
        here = folder / f"case-{number}"
        here.mkdir()
        started = time.monotonic()
        problems = list(_run(case, here, answers, clock))
        said = {"case": number, "fault": name, "seconds": round(time.monotonic() - started, 1), "problems": problems}
        if problems:
            said["drawn"] = {key: _plain(value) for key, value in asdict(case).items()}
            if keep:
                shutil.copytree(here, keep / f"case-{number}-{name}", ignore_dangling_symlinks=True)
        with results.open("a") as file:
            file.write(json.dumps(said) + "\n")
        print(f"case {number} {name}: {'; '.join(problems) or 'right'} ({said['seconds']} s)", flush=True, file=_STDERR)
        shutil.rmtree(here, ignore_errors=True)


_STDERR = os.fdopen(os.dup(2), "w")


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value


def _run(case: Case, folder: Path, answers: Path | None, clock: Path | None) -> Iterator[str]:
    """Runs one case and yields what is wrong with how it ended."""
    written: set[bytes] = set()
    with Stage(folder, case, answers, clock) as stage:
        swept = stage.sweep()
        yield from wrongly_ended(swept, case.sweep)
        if not stage.happened:
            yield "the fault did not happen"
        written |= stage.lines()
        yield from _gated(stage, case.gate)
        if case.damage:
            written -= stage.damage()
            yield from wrongly_ended(stage.gate(), codes(2))
        if case.resumed:
            stage.mend()
            yield from wrongly_ended(stage.sweep("--resume", "--retry-errors"), case.resumed)
            lost = len(written - stage.lines())
            if lost:
                yield f"{lost} of {len(written)} answers are neither in the run nor set aside after --resume"
            yield from _gated(stage, case.resumed_gate)
        if folder.joinpath("disk").exists() and case.disk_kib is not None:
            # What is kept of the case must outlive its disk.
            shutil.copytree(stage.run, folder / "kept", ignore_dangling_symlinks=True)


def _gated(stage: Stage, allowed: frozenset[int]) -> Iterator[str]:
    ended = stage.gate()
    yield from wrongly_ended(ended, allowed)
    answered = {name: stage.answered(name) for name in VARIANTS}
    if ended.code == 0 and any(count < stage.questions for count in answered.values()):
        yield f"the gate passed a run in which only {answered} of {stage.questions} questions were answered"


def wrongly_ended(ended: Ended, allowed: frozenset[int]) -> Iterator[str]:
    what = f"{' '.join(ended.arguments[:1])}{' --resume' if '--resume' in ended.arguments else ''}"
    if ended.code is None:
        yield f"{what}: did not end within {ended.seconds} s"
    elif ended.code not in allowed:
        last = " | ".join(ended.printed.strip().splitlines()[-4:])
        yield f"{what}: ended with {ended.code}, right is {sorted(allowed)}: {last[-400:]}"
    if "Traceback" in ended.printed:
        yield f"{what}: printed a traceback"
    if ended.left:
        yield f"{what}: left {len(ended.left)} processes running: {ended.left[0]}"


def _right_answers() -> dict[str, str]:
    """Returns what a healthy server answers, by the hash of a prompt. A part of it is wrong, for every variant."""
    plan = make_plan(SweepConfig.model_validate({**CONFIG, "variants": ["bf16"]}), NOTHING_TO_LAUNCH)
    answers = {}
    for sample in plan.samples:
        luck = random.Random(sample.sample_id).random()  # noqa: S311 - to be drawn again
        right = " and ".join(sample.doc["answers"])
        answers[sample.prompt.sha256()] = f"they are {right}" if luck < _SKILL else "they are 1234567"
    return answers


def _clock(folder: Path) -> Path | None:
    """Builds what makes a clock jump. None without a C compiler."""
    library = folder / "clock.so"
    source = Path(__file__).parent / "clock.c"
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return library
