"""The manifest of a run: what was run, on what, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from kveval.run.facts import Facts, FactsChange, Finding, StoredFacts
from kveval.run.looks import Look, PlannedLook, Stop
from kveval.run.reuse import Reuse
from kveval.run.storage import Stored

SCHEMA_VERSION = 1
INTERRUPTED = "interrupted"
"""The reason of a variant whose sweep ended while it was asked."""


def _role(value: Any) -> Any:
    """Reads the role of runs made before 0.1.0, which call an emulated control a twin."""
    return "control" if value == "twin" else value


Role = Literal["baseline", "candidate", "control", "aa"]
StoredRole = Annotated[Role, BeforeValidator(_role)]
RunStatus = Literal["running", "complete", "incomplete"]
VariantStatus = Literal["planned", "running", "complete", "stopped", "refused", "failed"]
# A variant's name becomes a file name. The pattern keeps that file inside the run directory.
VariantName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class SmokeResult(Stored):
    """What an engine answered to the smoke questions. Every field is None before they are asked.

    Attributes:
        perplexity: of plain English; None if the server gives no logprobs of a text.
        long_prompt_tokens, long_output: of the longest prompt, if it is longer than the first by a quarter.
        output: the answer to the first question.
        cached_tokens_of_repeat: of the same question asked again; None if the server does not say.
        sample_id: only in runs before 0.1.0.
    """

    prompt_tokens: int | None = None
    sample_id: str | None = None
    perplexity: float | None = None
    output: str | None = None
    long_prompt_tokens: int | None = None
    long_output: str | None = None
    cached_tokens_of_repeat: int | None = None


class VariantRun(Stored):
    """One variant of a run.

    Attributes:
        spec: the variant as configured, with every default written out.
        role: baseline, candidate, control (a candidate's format emulated on the baseline's kernel) or aa (the baseline
            a second time).
        of: the variant that a control or an A/A run belongs to.
        facts: what the engine was found to be doing; all None before it started.
        facts_changed: what changed while the variant was asked, which ended the variant. Empty again once a resumed run
            goes on with the variant.
        counters: the engine's own counters over the asking phase.
        planned_hit_tokens: prompt tokens of that phase that should have come from the prefix cache.
        server_seconds: that its servers took, from each launch to its end.
        looks: taken at a candidate while it was asked, in order. Empty if it is judged once, at its end.
        stopped: context lengths that were not asked to the end of the plan.
        reuse: what was taken from an earlier run, or why nothing was. None if nothing was to be taken.
    """

    name: str
    role: StoredRole
    of: str | None = None
    spec: dict[str, Any]
    status: VariantStatus = "planned"
    reason: str | None = None
    facts: StoredFacts = Facts()
    facts_changed: list[FactsChange] = []
    findings: list[Finding] = []
    smoke: SmokeResult = SmokeResult()
    counters: dict[str, float] = {}
    planned_hit_tokens: int = 0
    launches: int = 0
    asking_seconds: float = 0.0
    server_seconds: float = 0.0
    looks: list[Look] = []
    stopped: dict[int, Stop] = {}
    reuse: Reuse | None = None


class CellGrowth(Stored):
    """Samples that were added to one cell.

    Attributes:
        context_length: None for fixed prompts, which have lengths of their own.
        before, after: samples planned.
    """

    task: str
    context_length: int | None
    before: Annotated[int, Field(gt=0)]
    after: Annotated[int, Field(gt=0)]


class Growth(Stored):
    """Samples that were added to a run that existed.

    Attributes:
        at: UTC, as ISO 8601.
        cells: those that got more. The others stay as they were.
    """

    at: str
    cells: list[CellGrowth]


class ChosenQuestions(Stored):
    """The number of questions per haystack of one cell, as ``questions_per_haystack: auto`` was decided.

    Attributes:
        samples: of the cell when the number was chosen. A run that grows keeps the number.
        because: what it was chosen by, in words.
    """

    task: str
    context_length: int
    samples: Annotated[int, Field(gt=0)]
    questions: Annotated[int, Field(gt=0)]
    because: str


class Manifest(Stored):
    """What was run, on what, and how it ended.

    Attributes:
        config: the sweep configuration, with every default written out.
        inputs: sha256 by input (model files, tokenizer, chat template, corpora, task files). `--resume` compares them.
        samples_sha256: over the sorted sample ids.
        planned_looks: when candidates are judged while they are asked. Empty if they are judged once, at their end.
        questions_per_haystack: chosen for cells whose number the configuration leaves open.
        growth: when samples were added, and how many, in order. Empty for a run as it was first planned.
        without_reference: why samples have no reference, and so no expected score, by the task that has such samples.
    """

    schema_version: int = SCHEMA_VERSION
    kveval_version: str
    run_id: str
    created: str
    finished: str | None = None
    status: RunStatus = "running"
    config: dict[str, Any]
    inputs: dict[str, str]
    seeds: dict[str, int]
    sampling: dict[str, Any]
    samples: int
    samples_sha256: str
    questions_per_haystack: list[ChosenQuestions] = []
    growth: list[Growth] = []
    without_reference: dict[str, str] = {}
    aa_sample_ids: list[str] | None = None
    planned_looks: list[PlannedLook] = []
    baseline: str
    variants: dict[VariantName, VariantRun]
    versions: dict[str, str]
    machine: dict[str, Any]
    git: dict[str, Any] | None = None
    command: list[str] = []


def chosen_in_words(chosen: Iterable[ChosenQuestions]) -> list[str]:
    """Returns one sentence for each number and reason, with the tasks and lengths that it holds for."""
    together: dict[tuple[int, int, str], list[str]] = {}
    for one in chosen:
        together.setdefault((one.questions, one.context_length, one.because), []).append(one.task)
    return [
        f"questions per haystack: {questions} at {length:,} tokens ({', '.join(tasks)}), because {because}"
        for (questions, length, because), tasks in together.items()
    ]
