"""What a chat endpoint is asked, and how its stream becomes the same things a completion's does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kveval.tasks.scoring.calls import calls_text
from kveval.tasks.task import Chat


def chat_fields(chat: Chat, logprobs: int) -> dict[str, Any]:
    """What a request's body holds in place of a completion's ``prompt`` and ``logprobs``.

    The server is asked for the tokens of the prompt it made, and for logprobs where they are the model's own: under a
    forced tool call they are those of a grammar.
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
    """The deltas of one answer put together."""

    content: str = ""
    reasoning: str = ""
    calls: dict[int, dict[str, str]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """One string for an answer: its tool calls as a JSON array if it made any, else its content.

        Arguments that are not JSON stay the string they are. What a reasoning parser took out stands before the
        content as ``<think>...</think>``.
        """
        if self.calls:
            ordered = [self.calls[index] for index in sorted(self.calls)]
            return calls_text([{"name": one["name"], "arguments": _value(one["arguments"])} for one in ordered])
        return (f"<think>{self.reasoning}</think>" if self.reasoning else "") + self.content

    def completion_choice(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """Takes a chunk's delta in, and returns the chunk's choice as the completion endpoint would spell it.

        Raises:
            AttributeError, TypeError, ValueError, LookupError: not what a chat endpoint sends.
        """
        delta = choice.get("delta") or {}
        said = delta.get("content") or ""
        self.content += said
        thought = delta.get("reasoning") or delta.get("reasoning_content") or ""
        self.reasoning += thought
        for part in delta.get("tool_calls") or ():
            self._take_call(part)
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

    @staticmethod
    def whole_choice(choice: Mapping[str, Any]) -> dict[str, Any]:
        """The choice of an answer that came in one piece, as its only delta."""
        message = dict(choice["message"])
        calls = [{**call, "index": index} for index, call in enumerate(message.get("tool_calls") or ())]
        return {**choice, "delta": {**message, "tool_calls": calls}}

    def _take_call(self, part: Mapping[str, Any]) -> None:
        call = self.calls.setdefault(int(part.get("index") or 0), {"name": "", "arguments": ""})
        function = part.get("function") or {}
        call["name"] = call["name"] or function.get("name") or ""
        call["arguments"] += function.get("arguments") or ""


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
