"""Stage 4: how prompts are spelled for the model, and how each task is asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kveval.config.sweep import SweepConfig
from kveval.errors import PlanError
from kveval.measure.plan.route import Route, choose_route, server_template
from kveval.measure.plan.tasks import PlannedTasks
from kveval.measure.plan.variants import PlannedVariants
from kveval.tasks.assembly.chat import ChatTemplate
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.external.fixed_prompts import FixedPromptTask


@dataclass(frozen=True, slots=True)
class PlannedPrompts:
    """Everything besides its task that decides the tokens of a prompt.

    Attributes:
        format: of prompts sent as token ids.
        template: of conversations sent to the chat endpoint.
        routes: by task, for tasks that can be asked through the chat endpoint.
    """

    format: PromptFormat
    template: ChatTemplate
    routes: dict[str, Route]

    def is_text(self, task: str) -> bool:
        """Whether a task is asked by token ids sent to the completion endpoint."""
        return task not in self.routes or self.routes[task].form == "text"


def plan_prompts(variants: PlannedVariants, tasks: PlannedTasks) -> PlannedPrompts:
    """Reads tokenizer and chat template, and chooses how each task is asked: the same way for all variants.

    Raises:
        ConfigError: there is no usable tokenizer or template.
        PlanError: the checkpoint of a variant spells prompts differently, or rows with tools cannot be asked.
    """
    prompts = read_prompts(variants.config, variants.model.path, tasks)
    check_same_prompts(variants, prompts.format)
    for fixed in tasks.fixed:
        _check_tools(fixed, prompts.routes.get(fixed.task.name))
    return prompts


def read_prompts(config: SweepConfig, model: Path, tasks: PlannedTasks) -> PlannedPrompts:
    """Does what `plan_prompts` does for the checkpoint in one folder, without the checks."""
    prompt_format = read_prompt_format(config, model)
    template = ChatTemplate(model, config.chat_template_kwargs, server_template(config))
    routes = {name: choose_route(task, config, template) for name, task in tasks.by_name.items()}
    return PlannedPrompts(prompt_format, template, {name: route for name, route in routes.items() if route is not None})


def read_prompt_format(config: SweepConfig, model: Path) -> PromptFormat:
    return PromptFormat.load(model, config.prompt_style, config.chat_template_kwargs)


def check_same_prompts(variants: PlannedVariants, prompt_format: PromptFormat) -> None:
    """Raises PlanError: the checkpoint of a variant has another tokenizer or chat template."""
    for name, model in variants.models.items():
        if model.path == variants.model.path:
            continue
        other = read_prompt_format(variants.config, model.path)
        for what in ("tokenizer", "chat_template"):
            if getattr(other, f"{what}_sha256") != getattr(prompt_format, f"{what}_sha256"):
                raise PlanError(
                    f"variants.{name}.model: its {what.replace('_', ' ')} differs from that of {variants.model.path}; "
                    "use a checkpoint with the same one"
                )


def _check_tools(fixed: FixedPromptTask, route: Route | None) -> None:
    if route is None or route.form == "tools":
        return
    row = next(prompt for prompt in fixed.prompts("chat") if prompt.tools)
    raise PlanError(
        f"{row.where}: tools are asked through the chat endpoint, but {route.reason}; use a model whose chat template "
        "renders tools, with engine.args enable-auto-tool-choice and tool-call-parser"
    )
