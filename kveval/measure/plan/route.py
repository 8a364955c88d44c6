"""Chooses whether a task is asked through the chat endpoint, with tools or without, or through the completion endpoint.

The chat template and the engine's flags decide. The choice is the same for all variants: all get the same prompts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kveval.config.sweep import SweepConfig
from kveval.errors import ConfigError, PlanError
from kveval.measure.plan.variants import flags_of
from kveval.tasks.assembly.chat import ChatTemplate, Lack
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
    """Returns the template that the engine's ``chat-template`` flag sets; None if the engine uses the model's own.

    Raises:
        ConfigError: the flag names no readable file.
        PlanError: variants have different templates.
    """
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


def _flags_by_variant(config: SweepConfig) -> dict[str, dict[str, Any]]:
    return {variant.name: flags_of(config, variant) for variant in config.variants}
