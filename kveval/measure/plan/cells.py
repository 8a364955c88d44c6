"""Stage 3: the cells of the generated tasks."""

from __future__ import annotations

from collections.abc import Sequence

from kveval.config.sweep import SweepConfig
from kveval.engines.smoke import OUTPUT_TOKENS
from kveval.measure.plan.limits import TokenLimit
from kveval.measure.plan.tasks import PlannedTasks
from kveval.tasks.task import Cell


def plan_cells(config: SweepConfig, tasks: PlannedTasks, limits: Sequence[TokenLimit] = ()) -> list[Cell]:
    """Returns one cell for every context length of every generated task.

    Raises:
        PlanError: a cell's prompts and outputs do not fit one of `limits`.
    """
    cells = []
    for entry, task in tasks.generated:
        samples = entry.samples or config.samples
        for context_length in entry.context_lengths or config.context_lengths:
            for limit in limits:
                limit.check(
                    f"context_lengths of {task.name}", context_length, max(task.max_output_tokens, OUTPUT_TOKENS)
                )
            cells.append(
                Cell(
                    task=task.name,
                    context_length=context_length,
                    samples=samples,
                    questions_per_haystack=min(entry.questions_per_haystack or config.questions_per_haystack, samples),
                    seed=config.seed,
                    haystack_style=entry.haystack or config.haystack,
                )
            )
    return cells
