"""How one OpenAI-compatible server wants to be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from kveval.run.facts import PromptForm

COMPLETIONS = "/v1/completions"
CHAT_COMPLETIONS = "/v1/chat/completions"

# Turns token ids into the text that is sent for them, and says how many tokens our own tokenizer makes of that text.
Spell = Callable[[list[int]], tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one server understands. The default is what a vLLM server understands.

    Attributes:
        prompt: ``token_ids``; or ``text``, which the server tokenizes itself; or ``text_without_bos``, if the server
            puts the first token in front of every text.
        added_tokens: how many more tokens the server counts in a prompt than we do. Not 0 only if no prompt form fits.
        is_counted: the server says how many prompt tokens it saw.
        streams: whether answers are streamed. False if only whole answers come with that count; then there is no time
            to first token.
        most_logprobs: alternatives per output token. None = as many as asked for, 0 = none.
        names_tokens_by: whether logprobs name a token by its id or by its text, which several tokens may share.
        perplexity: how to ask the server for the logprobs of a text. None if it gives none.
        unknown_fields: fields of a request that the server refuses or ignores.
        chats: its chat endpoint answers.
        calls_tools: its chat endpoint parses tool calls.
    """

    prompt: PromptForm = "token_ids"
    added_tokens: int = 0
    is_counted: bool = True
    streams: bool = True
    most_logprobs: int | None = None
    names_tokens_by: Literal["id", "text"] = "id"
    perplexity: Literal["prompt_logprobs", "echo"] | None = "prompt_logprobs"
    unknown_fields: frozenset[str] = frozenset()
    chats: bool = True
    calls_tools: bool = True

    def lacks(self) -> Iterator[str]:
        """Yields the names of what kveval would use and this server does not have."""
        missing = {
            "token_ids": self.prompt != "token_ids",
            "usage": not self.is_counted,
            "streams": not self.is_counted and not self.streams,
            "streamed_usage": self.is_counted and not self.streams,
            "logprobs": self.most_logprobs == 0,
            "logprobs_by_id": self.most_logprobs != 0 and self.names_tokens_by == "text",
            "perplexity": self.perplexity is None,
            "cache_salt": "cache_salt" in self.unknown_fields,
            "return_token_ids": "return_token_ids" in self.unknown_fields,
            "chat": not self.chats,
            "tools": not self.calls_tools,
        }
        return (name for name, is_missing in missing.items() if is_missing)
