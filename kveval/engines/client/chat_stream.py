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
class ChatOutput:
    """Collects the deltas of one answer."""

    content: str = ""
    reasoning: str = ""
    calls: dict[int, dict[str, str]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The answer as one string: its tool calls as a JSON array if it made any, else its content.

        Arguments that are not JSON stay strings. What a reasoning parser took out is put before the content as
        ``<think>...</think>``.
        """
        if self.calls:
            ordered = [self.calls[index] for index in sorted(self.calls)]
            return calls_text([{"name": one["name"], "arguments": _value(one["arguments"])} for one in ordered])
        return (f"<think>{self.reasoning}</think>" if self.reasoning else "") + self.content

    def completion_choice(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """Adds a chunk, or a whole message, and returns it as the completion endpoint would spell it."""
        delta = choice.get("delta") or choice.get("message") or {}
        said = delta.get("content") or ""
        self.content += said
        thought = delta.get("reasoning") or delta.get("reasoning_content") or ""
        self.reasoning += thought
        for position, part in enumerate(delta.get("tool_calls") or ()):
            # Only the parts of streamed calls have an index.
            self._take_call(part, position if "message" in choice else int(part.get("index") or 0))
        tokens, alternatives = [], []
        for entry in (choice.get("logprobs") or {}).get("content") or ():
            tokens.append(entry["token"])
            alternatives.append({top["token"]: top["logprob"] for top in entry.get("top_logprobs") or ()})
        if not tokens:
            tokens = [f"token_id:{int(token)}" for token in choice.get("token_ids") or ()]
        return {
            "text": said,
            "finish_reason": choice.get("finish_reason"),
            "logprobs": {"tokens": tokens, "top_logprobs": alternatives} if tokens else None,
        }

    def _take_call(self, part: Mapping[str, Any], index: int) -> None:
        call = self.calls.setdefault(index, {"name": "", "arguments": ""})
        function = part.get("function") or {}
        call["name"] = call["name"] or function.get("name") or ""
        call["arguments"] += function.get("arguments") or ""


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
