"""The tasks of a sweep whose prompts are given: files of one's own, and lm-eval's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kveval.config.sweep import SweepConfig
from kveval.errors import ConfigError, PlanError
from kveval.measure.plan.route import Route
from kveval.tasks.external.fixed_prompts import FixedPromptTask


def load_fixed_prompt_tasks(config: SweepConfig) -> list[FixedPromptTask]:
    """Reads every row and document; needs no model.

    Raises:
        ConfigError: a row that is not allowed, an unknown task, or two tasks of one name.
        DataError: a task whose data cannot be fetched.
    """
    from kveval.tasks.external.lm_eval import load_lm_eval_task
    from kveval.tasks.external.prompt_rows import read_prompts

    given: dict[str, FixedPromptTask] = {}
    for wanted in config.tasks:
        if not wanted.has_fixed_prompts:
            continue
        one = (
            read_prompts(wanted.file, wanted.name, wanted.samples)
            if wanted.file is not None
            else load_lm_eval_task(wanted.name, wanted.samples, config.samples)
        )
        if one.task.name in given:
            raise ConfigError(f"tasks: {one.task.name} is listed twice; allowed: every one once")
        given[one.task.name] = one
    return list(given.values())


def check_routes(given: Sequence[FixedPromptTask], routes: Mapping[str, Route]) -> None:
    """Raises PlanError: rows with tools, and the chat endpoint cannot be asked with them."""
    for one in given:
        route = routes.get(one.task.name)
        if route is not None and route.form != "tools":
            row = next(prompt for prompt in one.prompts("chat") if prompt.tools)
            raise PlanError(
                f"{row.where}: tools are asked through the chat endpoint, but {route.reason}; allowed: a model whose "
                "chat template renders tools, with engine.args enable-auto-tool-choice and tool-call-parser"
            )
