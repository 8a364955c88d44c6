"""Stage 4: how prompts are spelled for the model, and how each task is asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kveval.config.sweep import SweepConfig
from kveval.errors import ConfigError, PlanError
from kveval.measure.plan.tasks import PlannedTasks
from kveval.measure.plan.variants import PlannedVariants, flags_of
from kveval.tasks.assembly.chat import ChatTemplate, Lack
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.external.fixed_prompts import FixedPromptTask
from kveval.tasks.scoring.model_reasoning import ModelReasoning, read_reasoning
from kveval.tasks.task import Task

_PARSER_FLAGS = ("enable-auto-tool-choice", "tool-call-parser")
_LACKS: dict[Lack, str] = {
    "template": "the model has no chat template",
    "turns": "the chat template does not render a conversation of several turns",
    "tools": "the chat template does not render tools",
    "date": "the chat template writes today's date; fix it with chat_template_kwargs",
}


@dataclass(frozen=True, slots=True)
class Route:
    """How a task is asked, and why.

    Attributes:
        form: ``text`` (token ids to the completion endpoint), ``messages`` or ``tools`` (the chat endpoint).
    """

    form: Literal["text", "messages", "tools"]
    reason: str

    @property
    def name(self) -> str:
        return {"text": "text", "messages": "chat endpoint", "tools": "chat endpoint with tools"}[self.form]


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

    def reasoning(self, parsers: Iterable[tuple[str, str]]) -> ModelReasoning:
        """Reads how the model marks its thinking. `parsers`: see `read_reasoning`."""
        has_template = self.format.style == "chat" or any(not self.is_text(task) for task in self.routes)
        return read_reasoning(self.format.tokenizer, self.template if has_template else None, parsers)

    def is_text(self, task: str) -> bool:
        """Whether a task is asked by token ids sent to the completion endpoint."""
        return task not in self.routes or self.routes[task].form == "text"


def plan_prompts(variants: PlannedVariants, tasks: PlannedTasks) -> PlannedPrompts:
    """Reads tokenizer and chat template, and chooses how each task is asked: the same way for all variants."""
    prompts = read_prompts(variants.config, variants.model.path, tasks)
    check_same_prompts(variants, prompts.format)
    for fixed in tasks.fixed:
        _check_tools(fixed, prompts.routes.get(fixed.task.name))
    return prompts


def read_prompts(config: SweepConfig, model: Path, tasks: PlannedTasks) -> PlannedPrompts:
    """Does what `plan_prompts` does for the checkpoint in one folder, without the checks."""
    prompt_format = read_prompt_format(config, model)
    template = ChatTemplate(model, config.chat_template_kwargs, server_template(config), trusts_code(config))
    routes = {name: choose_route(task, config, template) for name, task in tasks.by_name.items()}
    return PlannedPrompts(prompt_format, template, {name: route for name, route in routes.items() if route is not None})


def read_prompt_format(config: SweepConfig, model: Path) -> PromptFormat:
    return PromptFormat.load(model, config.prompt_style, config.chat_template_kwargs, trusts_code(config))


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


def choose_route(task: Task, config: SweepConfig, template: ChatTemplate) -> Route | None:
    """Chooses the route of a task. Returns None if the task can only be asked in text."""
    form = task.chat_form
    if form is None:
        return None
    if config.prompt_style == "completion":
        return Route("text", "prompt_style is completion")
    for variant in config.variants:
        chat = "tools" if variant.endpoint is None else variant.endpoint.chat
        if chat == "none" or (chat, form) == ("messages", "tools"):
            return Route("text", f"variants.{variant.name}.endpoint.chat is {chat}")
    if form == "tools" and not config.is_attached:
        for name, flags in _flags_by_variant(config).items():
            missing = [flag for flag in _PARSER_FLAGS if flags.get(flag) in (None, False)]
            if missing:
                return Route("text", f"the engine of {name} is started without {' and '.join(missing)}")
    lack = template.lack(tools=form == "tools")
    if lack is not None:
        return Route("text", _LACKS[lack])
    return Route(form, "the chat template and the engine's flags allow it")


def server_template(config: SweepConfig) -> str | None:
    """Returns the template that the engine's ``chat-template`` flag sets; None if the engine uses the model's own."""
    found = {name: flags.get("chat-template") for name, flags in _flags_by_variant(config).items()}
    values = {str(value) for value in found.values() if value not in (None, False)}
    if len(values) > 1 or (values and None in found.values()):
        raise PlanError(f"chat-template: differs between variants {', '.join(found)}; use one for all")
    if not values:
        return None
    value = values.pop()
    # The engine takes a template itself as well as a path.
    if "{" in value or "\n" in value:
        return value
    try:
        return Path(value).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"engine.args.chat-template: {value} cannot be read; use a template file") from error


def trusts_code(config: SweepConfig) -> bool:
    """Whether an engine is started with a flag that lets it run Python code of the model folder."""
    return any(flags.get("trust-remote-code") not in (None, False) for flags in _flags_by_variant(config).values())


def _flags_by_variant(config: SweepConfig) -> dict[str, dict[str, Any]]:
    return {variant.name: flags_of(config, variant) for variant in config.variants}
