"""Stages 2 and 3: the tasks of a configuration, loaded, and their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kveval.config.sweep import SweepConfig
from kveval.config.task import AUTO, TaskConfig
from kveval.engines.smoke import OUTPUT_TOKENS
from kveval.errors import ConfigError, PlanError, nearest
from kveval.measure.plan.limits import SPARE_TOKENS, TokenLimit
from kveval.run.manifest import ChosenQuestions
from kveval.tasks.external.fixed_prompts import FixedPromptTask, with_output_tokens
from kveval.tasks.loader import load_tasks
from kveval.tasks.task import Cell, Task
from kveval.tasks.task_files import list_tasks

# Divergence and references write more than the shortest answers.
_LEAST_OUTPUT_TOKENS = 512


@dataclass(frozen=True, slots=True)
class PlannedTasks:
    """Tasks in the order they are asked.

    Attributes:
        generated: tasks whose haystacks kveval assembles, each with its entry of the configuration.
        fixed: tasks whose prompts a file or an lm-eval task holds.
    """

    generated: list[tuple[TaskConfig, Task]]
    fixed: list[FixedPromptTask]

    @property
    def by_name(self) -> dict[str, Task]:
        return {task.name: task for task in (*(task for _, task in self.generated), *(one.task for one in self.fixed))}


def plan_tasks(config: SweepConfig) -> PlannedTasks:
    """Loads every task; needs no model."""
    tasks = read_tasks(config)
    # A file's margins also hold for tasks that --tasks leaves out tonight.
    known = list_tasks(config.include_path)
    families = sorted({task.family for task in tasks.by_name.values()} | {task.family for task in known})
    for family in config.judge.margins:
        if family not in families:
            raise ConfigError(f"judge.margins: there is no task family {family!r}; {nearest(family, families)}")
    return tasks


def read_tasks(config: SweepConfig) -> PlannedTasks:
    """Loads the tasks as `plan_tasks` does, without looking at the rest of the configuration."""
    # Rows first: a wrong one should not wait for what takes longer to read.
    fixed = _fixed_prompt_tasks(config)
    generated = [entry for entry in config.tasks if not entry.has_fixed_prompts]
    loaded = load_tasks([entry.name for entry in generated], config.include_path)
    return PlannedTasks([(entry, _with_budget(loaded[entry.name], entry)) for entry in generated], fixed)


def _with_budget(task: Task, entry: TaskConfig) -> Task:
    return replace(task, max_output_tokens=entry.output_tokens or task.max_output_tokens)


def _fixed_prompt_tasks(config: SweepConfig) -> list[FixedPromptTask]:
    from kveval.tasks.external.lm_eval import load_lm_eval_task
    from kveval.tasks.external.prompt_rows import read_prompts

    found: dict[str, FixedPromptTask] = {}
    for entry in config.tasks:
        if not entry.has_fixed_prompts:
            continue
        if entry.file is not None:
            one = read_prompts(entry.file, entry.name, entry.samples)
        else:
            one = load_lm_eval_task(entry.name, entry.samples, config.samples)
        if one.task.name in found:
            raise ConfigError(f"tasks: {one.task.name} is listed twice; list every task once")
        found[one.task.name] = with_output_tokens(one, entry.output_tokens)
    return list(found.values())


def with_lengths(config: SweepConfig, tasks: PlannedTasks, limits: Sequence[TokenLimit]) -> SweepConfig:
    """Returns the configuration with `context_lengths`, where it has none and a task needs them.

    They are 4K, 16K, 64K and so on, and the longest that leaves room for every output.

    Raises:
        PlanError: no length leaves room.
    """
    open_tasks = [task for entry, task in tasks.generated if not entry.context_lengths]
    if config.context_lengths or not open_tasks:
        return config
    output = max(_LEAST_OUTPUT_TOKENS, *(task.max_output_tokens for task in open_tasks))
    # Without a known window, vLLM assumes this one.
    window = min((limit.tokens for limit in limits), default=2048)
    longest = (window - output - SPARE_TOKENS) // 1024 * 1024
    if longest <= 0:
        raise PlanError(
            f"context_lengths: required, not given: a window of {window} tokens with an output of {output} holds no "
            "usual length; use tokens such as 512, 4k (= 4096) or 1m"
        )
    # A length close to the longest would cost as much as it, and tell nothing more.
    shorter = [4096 * 4**step for step in range(6) if 1.5 * 4096 * 4**step <= longest]
    return config.model_copy(update={"context_lengths": [*shorter, longest]})


def check_lengths(config: SweepConfig, tasks: PlannedTasks, limits: Sequence[TokenLimit]) -> None:
    """Raises PlanError: a context length and the output of a task exceed a limit."""
    for entry, task in tasks.generated:
        for context_length in entry.context_lengths or config.context_lengths:
            for limit in limits:
                limit.check(
                    f"context_lengths of {task.name}", context_length, max(task.max_output_tokens, OUTPUT_TOKENS)
                )


def plan_cells(config: SweepConfig, tasks: PlannedTasks, chosen: Iterable[ChosenQuestions]) -> list[Cell]:
    """Returns one cell for every context length of every generated task.

    Args:
        chosen: the number of questions per haystack of every cell for which the configuration says ``auto``.
    """
    numbers = {(one.task, one.context_length): one.questions for one in chosen}
    cells = []
    for entry, task in tasks.generated:
        samples = entry.samples or config.samples
        for context_length in entry.context_lengths or config.context_lengths:
            number = entry.questions_per_haystack or config.questions_per_haystack
            questions = numbers[task.name, context_length] if number == AUTO else number
            cells.append(
                Cell(
                    task=task.name,
                    context_length=context_length,
                    samples=samples,
                    questions_per_haystack=min(questions, samples),
                    seed=config.seed,
                    haystack_style=entry.haystack or config.haystack,
                )
            )
    return cells
