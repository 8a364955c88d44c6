"""Renders a conversation to the token ids that a model gets for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kveval.errors import ConfigError, PlanError
from kveval.models.folder import printable, reading
from kveval.models.tokenizer import load_tokenizer
from kveval.tasks.assembly.prompt import fixed_date

Messages = Sequence[Mapping[str, Any]]
Lack = Literal["template", "turns", "tools", "date"]

_MARKER = "kveval_marker"
_TURNS = (
    {"role": "user", "content": f"{_MARKER} 1"},
    {"role": "assistant", "content": f"{_MARKER} 2"},
    {"role": "user", "content": f"{_MARKER} 3"},
)
_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": f"{_MARKER}_tool", "description": "", "parameters": {"type": "object", "properties": {}}},
}


class ChatTemplate:
    """The chat template of a model directory, read when it is first used.

    It renders what a server's chat endpoint would render: special tokens in the text are special, where
    `PromptFormat.encode` treats them as plain text.

    Args:
        variables: variables of the template, such as ``{"enable_thinking": False}``.
        template: replaces the model's own template, as the engine's ``--chat-template`` does.
        trusts_code: whether Python code that the folder holds may run, to make its tokenizer.
    """

    def __init__(
        self, model_dir: Path, variables: Mapping[str, Any], template: str | None = None, trusts_code: bool = False
    ) -> None:
        self._model_dir = model_dir
        self._trusts_code = trusts_code
        self._template = template
        self.variables = dict(variables)

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer = load_tokenizer(self._model_dir, self._trusts_code)
        if not (tokenizer.chat_template or self._template):
            raise ConfigError(f"messages need a chat template and {self._model_dir} has none; use prompt")
        return tokenizer

    def lack(self, *, tools: bool) -> Lack | None:
        """Says what this template cannot render for a chat endpoint; None if it can render everything.

        ``date`` means that its text depends on the day, so the server's prompt would differ from the planned one.
        """
        try:
            text = self.text(_TURNS, (_TOOL,) if tools else ())
        except ConfigError:
            return "template"
        except PlanError:
            return "tools" if tools and self.lack(tools=False) is None else "turns"
        if not all(text.count(str(turn["content"])) == 1 for turn in _TURNS):
            return "turns"
        if tools and _TOOL["function"]["name"] not in text:
            return "tools"
        if text != self.text(_TURNS, (_TOOL,) if tools else (), lambda layout: f"another {layout}"):
            return "date"
        return None

    def text(self, messages: Messages, tools: Messages = (), strftime_now: Callable[[str], str] = fixed_date) -> str:
        """Renders the conversation and the opening of the answer. A last message of the assistant is continued.

        Raises:
            PlanError: the template does not take these messages.
            ConfigError: the model has no template.
        """
        begun = messages[-1]["role"] == "assistant"
        ends = {"add_generation_prompt": not begun, "continue_final_message": begun}
        return self._rendered(messages, tools, {**ends, "strftime_now": strftime_now})

    def written_calls(self, calls: Sequence[Mapping[str, Any]]) -> str | None:
        """Returns what the model writes to make function calls, with the end of its turn.

        A template that writes no calls, but asks for ``<tool_call>`` tags, gets them. Returns None if there is no
        telling how calls are written.

        Args:
            calls: ``{"name": ..., "arguments": {...}}`` each.
        """
        asked = {"role": "user", "content": f"{_MARKER} 1"}
        tools = [{**_TOOL, "function": {**_TOOL["function"], "name": call["name"]}} for call in calls]
        made = [{"id": f"{number:09}", "type": "function", "function": dict(call)} for number, call in enumerate(calls)]
        said = f"{_MARKER} 2"
        ends = {"add_generation_prompt": False, "continue_final_message": False, "strftime_now": fixed_date}
        try:
            before = self._rendered([asked, {"role": "assistant", "content": said}], tools, ends).split(said)[0]
            written = self._rendered([asked, {"role": "assistant", "content": "", "tool_calls": made}], tools, ends)
            opened = self.text([asked], tools)
        except PlanError:
            return None
        # Some templates put a space before text and none before calls.
        begins = next((text for text in (before, opened) if written.startswith(text)), written)
        if str(calls[0]["name"]) in written[len(begins) :]:
            return written[len(begins) :]
        if "<tool_call>" not in opened:
            return None
        return "\n".join(f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>" for call in calls)

    def _rendered(self, messages: Messages, tools: Messages, options: Mapping[str, Any]) -> str:
        try:
            text: str = self._tokenizer.apply_chat_template(
                [_as_the_server_reads(message) for message in messages],
                tools=[dict(tool) for tool in tools] or None,
                chat_template=self._template,
                tokenize=False,
                **{**options, **self.variables},
            )
        except (ConfigError, PlanError):
            raise
        except Exception as error:  # a template is code of the model's author and may raise anything
            raise PlanError(
                f"the model's chat template refuses the messages: {printable(' '.join(str(error).split()))}"
            ) from error
        return text

    def encode(self, text: str) -> np.ndarray:
        """Encodes rendered text, int32 [tokens]. Special tokens in it are special."""
        tokenizer = self._tokenizer
        with reading(self._model_dir):
            return np.array(tokenizer.encode(text, add_special_tokens=False), np.int32)

    def token_ids(self, messages: Messages, tools: Messages = ()) -> np.ndarray:
        """Renders and encodes a conversation, int32 [tokens]."""
        return self.encode(self.text(messages, tools))


def _as_the_server_reads(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a message as vLLM gives it to a template (vllm/renderers/chat_utils.py).

    A message without content has an empty text, and arguments of earlier tool calls are objects instead of text.
    """
    message = {**given, "content": "" if given.get("content") is None else given["content"]}
    if message["role"] != "assistant" or not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        function = dict(call.get("function") or {})
        arguments = function.get("arguments") or {}
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except ValueError:
                arguments = {}
        function["arguments"] = arguments if isinstance(arguments, Mapping) else {}
        calls.append({**call, "function": function})
    return {**message, "tool_calls": calls}
