"""Asks a chat endpoint, and turns its answer into what a completion endpoint would have sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kveval.tasks.sample import Chat
from kveval.tasks.scoring.calls import calls_text


def chat_fields(chat: Chat, logprobs: int) -> dict[str, Any]:
    """Returns the fields that replace ``prompt`` and ``logprobs`` in a request's body.

    They ask for the tokens of the prompt that the server makes. They ask for logprobs only if no tool call is forced:
    under a forced call, a grammar decides them and not the model.
    """
    fields: dict[str, Any] = {"messages": [dict(message) for message in chat.messages], "return_token_ids": True}
    if chat.tools:
        fields |= {"tools": [dict(tool) for tool in chat.tools], "tool_choice": chat.tool_choice}
    if chat.template_kwargs:
        fields["chat_template_kwargs"] = dict(chat.template_kwargs)
    if logprobs and not chat.is_constrained:
        fields |= {"logprobs": True, "top_logprobs": logprobs, "return_tokens_as_token_ids": True}
    return fields


@dataclass(slots=True)
class _Call:
    """One tool call of an answer, as far as it has come.

    Attributes:
        arguments: JSON text. Some servers send the object itself.
    """

    index: int
    call_id: str | None
    name: str
    arguments: Any = ""

    def goes_on_with(self, part: Mapping[str, Any], name: str) -> bool:
        """Returns whether a part continues this call. A part that names a function may begin the next one.

        Servers differ: some number every call 0, some give no numbers, some no ids, and some repeat a call's name or
        invent an id for each of its parts.
        """
        if not name or not self.name:
            return True
        if part.get("id") and self.call_id:
            return bool(part["id"] == self.call_id)
        return name == self.name and not (isinstance(_value(self.arguments), dict) and self.arguments)


@dataclass(slots=True)
class ChatOutput:
    """Collects the deltas of one answer."""

    content: str = ""
    reasoning: str = ""
    calls: list[_Call] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The answer as one string: its tool calls as a JSON array if it made any, else its content.

        Arguments that are not JSON stay strings. What a reasoning parser took out is put before the content as
        ``<think>...</think>``; without content, the thinking has not ended.
        """
        if self.calls:
            ordered = sorted(self.calls, key=lambda call: call.index)
            return calls_text([{"name": call.name, "arguments": _value(call.arguments)} for call in ordered])
        end = "</think>" if self.content else ""
        return (f"<think>{self.reasoning}{end}" if self.reasoning else "") + self.content

    def completion_choice(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """Adds a chunk, or a whole message, and returns it as the completion endpoint would spell it."""
        delta = choice.get("delta") or choice.get("message") or {}
        said, thought = _said_and_thought(delta.get("content") or "")
        self.content += said
        thought = delta.get("reasoning") or delta.get("reasoning_content") or thought
        self.reasoning += thought
        # A server of the time before tools calls one function.
        calls = delta.get("tool_calls") or [{"function": one} for one in [delta.get("function_call")] if one]
        for part in calls:
            self._take_call(part, is_whole="message" in choice)
        tokens, alternatives = [], []
        for entry in (choice.get("logprobs") or {}).get("content") or ():
            tokens.append(entry["token"])
            alternatives.append({top["token"]: top["logprob"] for top in entry.get("top_logprobs") or ()})
        if not tokens:
            tokens = [f"token_id:{int(token)}" for token in choice.get("token_ids") or ()]
        return {
            "text": said,
            "is_output": bool(thought or calls),
            "finish_reason": choice.get("finish_reason"),
            "logprobs": {"tokens": tokens, "top_logprobs": alternatives} if tokens else None,
        }

    def _take_call(self, part: Mapping[str, Any], *, is_whole: bool) -> None:
        function = part.get("function") or {}
        name, arguments = function.get("name") or "", function.get("arguments") or ""
        index = int(part.get("index") or 0)
        # Parts without an index belong to the latest call.
        begun = [call for call in self.calls if part.get("index") is None or call.index == index]
        if is_whole or not begun or not begun[-1].goes_on_with(part, name):
            self.calls.append(_Call(index, part.get("id"), name, arguments))
            return
        call = begun[-1]
        call.name = call.name or name
        if arguments:
            call.arguments = call.arguments + arguments if isinstance(arguments, str) else arguments


def _said_and_thought(content: Any) -> tuple[str, str]:
    """Returns what a content says and what it thinks. Mistral's API gives a list of parts of both kinds."""
    if not isinstance(content, list):
        return content, ""
    said = thought = ""
    for part in content:
        if part.get("type") == "thinking":
            inner = part["thinking"]
            thought += inner if isinstance(inner, str) else _said_and_thought(inner)[0]
        else:
            said += part.get("text") or ""
    return said, thought


def _value(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
