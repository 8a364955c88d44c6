"""Stage 5: every sample of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kveval.config.values import LONGEST_CONTEXT_TOKENS
from kveval.engines.smoke import OUTPUT_TOKENS
from kveval.errors import ConfigError
from kveval.measure.plan.limits import TokenLimit
from kveval.measure.plan.prompts import PlannedPrompts
from kveval.measure.plan.tasks import PlannedTasks
from kveval.tasks.assembly.chat_haystack import chat_samples
from kveval.tasks.assembly.haystack import build_samples
from kveval.tasks.external.fixed_prompts import fixed_prompt_samples
from kveval.tasks.loader import check_scorer
from kveval.tasks.sample import Sample
from kveval.tasks.task import Cell
from kveval.tasks.user_code import user_code


def plan_samples(
    cells: Sequence[Cell], tasks: PlannedTasks, prompts: PlannedPrompts, limits: Sequence[TokenLimit]
) -> list[Sample]:
    """Builds every sample: those of the cells, then fixed prompts. They are the same for all variants."""
    generated = generated_samples(cells, tasks, prompts)
    for _, task in tasks.generated:
        own = [sample for sample in generated if sample.task == task.name]
        check_scorer(task, own[0], own[-1])
    fixed = fixed_samples(tasks, prompts, min((limit.tokens for limit in limits), default=LONGEST_CONTEXT_TOKENS))
    for sample in fixed:
        for limit in limits:
            # Smoke questions ask the longest prompt as well, with an output of their own.
            limit.check(sample.doc["source"], len(sample.prompt), max(sample.max_output_tokens, OUTPUT_TOKENS))
    samples = [*generated, *fixed]
    _check_distinct(samples)
    return samples


def generated_samples(cells: Iterable[Cell], tasks: PlannedTasks, prompts: PlannedPrompts) -> list[Sample]:
    """Builds the samples of `cells`, for the route of their tasks."""
    by_name, samples = tasks.by_name, []
    for cell in cells:
        task = by_name[cell.task]
        if prompts.is_text(cell.task):
            samples += build_samples(task, cell, prompts.format)
        else:
            with user_code(f"task {task.name!r} at context_length {cell.context_length}: its builder"):
                samples += chat_samples(task, cell, prompts.template)
    return samples


def fixed_samples(
    tasks: PlannedTasks, prompts: PlannedPrompts, most_tokens: int = LONGEST_CONTEXT_TOKENS
) -> list[Sample]:
    """Builds the samples of tasks with fixed prompts. A prompt far above `most_tokens` is a PlanError."""
    return [
        sample
        for task in tasks.fixed
        for sample in fixed_prompt_samples(task, prompts.format, prompts.template, most_tokens)
    ]


def fixed_counts(tasks: PlannedTasks, prompts: PlannedPrompts) -> dict[str, int]:
    """Returns the number of prompts of each task with fixed prompts."""
    return {fixed.task.name: len(fixed.prompts(prompts.format.style)) for fixed in tasks.fixed}


def _check_distinct(samples: Sequence[Sample]) -> None:
    # Records are joined by sample_id: one answer would stand for both of two equal questions.
    seen: set[str] = set()
    for sample in samples:
        if sample.sample_id in seen:
            raise ConfigError(
                f"task {sample.task!r} at context_length {sample.context_length}: asks the same question twice, with "
                f"the answers {sample.doc['answers']}; use questions that differ within a haystack"
            )
        seen.add(sample.sample_id)
