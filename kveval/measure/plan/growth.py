"""Samples that are added to a run that exists. Every sample the run has keeps its id and its bytes.

A cell's haystacks are drawn in stages: those of the first plan as any plan draws them, then those of each growth, with
numbers that continue and depths that cover the context evenly by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kveval.config.sweep import SweepConfig, validate_config
from kveval.errors import ResumeError
from kveval.measure import provenance
from kveval.run.directory import RunDirectory
from kveval.run.facts import Finding
from kveval.run.manifest import CellGrowth, Growth, Manifest
from kveval.tasks.sample import Sample
from kveval.tasks.task import Cell

# A task and a context length; no length for fixed prompts, whose lengths are what they are.
_Place = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class EarlierPlan:
    """What a run was planned with before."""

    manifest: Manifest
    run: RunDirectory

    @property
    def max_model_len(self) -> int:
        """Returns the window of the servers that answered some of the run; 0 where nobody has asked them."""
        return self.manifest.variants[self.manifest.baseline].facts.max_model_len or 0

    @classmethod
    def of(cls, run: RunDirectory) -> EarlierPlan | None:
        """Returns the plan of the run in a folder. None if there is no run yet."""
        if not run.exists():
            return None
        return cls(run.read_manifest(), run)

    def samples(self) -> Mapping[tuple[str, int], int]:
        """Counts the samples of the run by task and context length. There are none where samples.jsonl is gone."""
        return Counter((row.task, row.context_length) for row in self.run.samples())


def plan_growth(
    config: SweepConfig, earlier: EarlierPlan | None, cells: Sequence[Cell], fixed: Mapping[str, int]
) -> tuple[Growth, ...]:
    """Returns every growth of a run in order. The last one is new if the configuration asks for more than the run has.

    Args:
        cells: of generated tasks, as the configuration plans them for a new run.
        fixed: number of prompts of each task with fixed prompts.

    Raises:
        ResumeError: the configuration asks for fewer samples than the run has, or nothing can be added.
    """
    if earlier is None:
        return ()
    history, before = tuple(earlier.manifest.growth), earlier.manifest.config
    if _samples_keys(before) == _samples_keys(config.model_dump(mode="json")):
        return history
    old = validate_config(before, "the manifest's config")
    if [task.name for task in old.tasks] != [task.name for task in config.tasks]:
        # Refused later, where all keys are compared.
        return history
    _refuse_fewer(old, config)
    planned = earlier.samples()
    if not planned:
        raise ResumeError(
            "--resume: samples cannot be added to a run without samples.jsonl; "
            "use --resume with the samples of this run first, which writes it again"
        )
    wanted: dict[_Place, int] = {(cell.task, cell.context_length): cell.samples for cell in cells}
    wanted |= {(task, None): prompts for task, prompts in fixed.items()}
    added = []
    for (task, length), after in wanted.items():
        has = sum(n for (name, at), n in planned.items() if name == task and length in (None, at))
        if 0 < has < after:
            added.append(CellGrowth(task=task, context_length=length, before=has, after=after))
    if not added:
        whole = "".join(f"; {name} has no more than {prompts} prompts" for name, prompts in fixed.items())
        raise ResumeError(f"--resume: nothing is added by the samples asked for now{whole}; use those of this run")
    return (*history, Growth(at=provenance.now(), cells=added))


def grown_cells(cells: Iterable[Cell], growth: Iterable[Growth]) -> list[Cell]:
    """Returns the cells of a run as its growth left them."""
    of_cell: dict[_Place, list[CellGrowth]] = {}
    for one in growth:
        for cell in one.cells:
            of_cell.setdefault((cell.task, cell.context_length), []).append(cell)
    return [
        replace(cell, samples=steps[-1].after, grown_from=tuple(step.before for step in steps)) if steps else cell
        for cell in cells
        for steps in [of_cell.get((cell.task, cell.context_length), [])]
    ]


def by_stage(samples: Iterable[Sample], growth: Sequence[Growth]) -> tuple[tuple[Sample, ...], ...]:
    """Divides samples into those of the first plan, and those of each growth. Keeps their order."""
    bounds: dict[_Place, list[tuple[int, int]]] = {}
    for number, one in enumerate(growth, start=1):
        for cell in one.cells:
            bounds.setdefault((cell.task, cell.context_length), []).append((cell.before, number))
    stages: list[list[Sample]] = [[] for _ in range(len(growth) + 1)]
    seen: Counter[_Place] = Counter()
    for sample in samples:
        places: list[_Place] = [(sample.task, sample.context_length), (sample.task, None)]
        place = next((one for one in places if one in bounds), places[0])
        stage = max((number for before, number in bounds.get(place, []) if before <= seen[place]), default=0)
        stages[stage].append(sample)
        seen[place] += 1
    return tuple(map(tuple, stages))


def growth_notes(growth: Growth, tasks: Iterable[str]) -> list[str]:
    """Says what a growth adds, and to which of the run's tasks it adds nothing."""
    cells = ", ".join(f"{cell.task}{_at(cell)} {cell.before} -> {cell.after}" for cell in growth.cells)
    others = ", ".join(sorted(set(tasks) - {cell.task for cell in growth.cells}))
    notes = [f"samples are added: {cells}; those of the run stay as they are"]
    return notes + ([f"nothing is added to {others}"] if others else [])


def growth_findings(config: SweepConfig, growth: Sequence[Growth]) -> list[Finding]:
    """Warns of verdicts that no error rate was kept for: a run without looks may have been judged before it grew."""
    if config.stop != "never" or not growth:
        return []
    verdicts = len(growth) + 1
    message = (
        f"samples were added to a run with stop: never, so it can be judged {verdicts} times, each time at the whole "
        f"error rate: false verdicts may be {verdicts} times as frequent as the confidence says. Only one verdict, "
        "before or after, keeps it; use stop: when_decided for a run that is to grow"
    )
    return [Finding.warning("grown_without_looks", message)]


def samples_of(config: SweepConfig) -> list[int | None]:
    """Returns how many samples each task of a configuration asks for; None for all rows of a file."""
    return [task.samples or (None if task.file is not None else config.samples) for task in config.tasks]


def without_samples(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a configuration, as data for JSON, without the keys that say how many samples are asked."""
    tasks = config.get("tasks")
    if isinstance(tasks, list):
        tasks = [{**one, "samples": None} if isinstance(one, Mapping) else one for one in tasks]
    return {**config, "samples": None, "tasks": tasks}


def _at(cell: CellGrowth) -> str:
    return "" if cell.context_length is None else f" at {cell.context_length}"


def _samples_keys(config: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    tasks = config.get("tasks")
    entries = tasks if isinstance(tasks, list) else []
    return config.get("samples"), [one.get("samples") for one in entries if isinstance(one, Mapping)]


def _refuse_fewer(before: SweepConfig, now: SweepConfig) -> None:
    for number, (had, asks) in enumerate(zip(samples_of(before), samples_of(now), strict=True)):
        if asks is None or (had is not None and asks >= had):
            continue
        is_own = before.tasks[number].samples is not None or now.tasks[number].samples is not None
        was, instead = ("all rows", "no samples for this task") if had is None else (str(had), f"{had} or more")
        raise ResumeError(
            f"--resume: {f'tasks.{number}.samples' if is_own else 'samples'} was {was} in this run and is {asks} now, "
            f"but a run keeps the samples it has; use {instead}, or a new --out"
        )
