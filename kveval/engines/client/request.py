"""What is asked of a server, and how the request is spelled for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kveval.engines.client.access import Access
from kveval.engines.client.chat_stream import chat_fields
from kveval.engines.client.dialect import Spell
from kveval.engines.plugin.forcing import ForcedOutput
from kveval.tasks.sample import Chat


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One question to a server.

    Attributes:
        token_ids: int32 [prompt_tokens].
        cache_salt: requests share prefix-cache blocks only with the same salt.
        chat: messages for the chat endpoint, which makes the token ids itself. None for the completion endpoint.
        ignore_eos: the output ends at `max_output_tokens` only.
        forced: the output that kveval's processor inside the engine forces. None leaves the choice to the engine.
        only_id: the one token that the engine may write, at every position. None leaves the choice to the engine.
        read_id: a token whose logprob the answer must have at every position. None asks for the likeliest ones.
    """

    token_ids: np.ndarray
    max_output_tokens: int
    stop: tuple[str, ...] = ()
    cache_salt: str | None = None
    chat: Chat | None = None
    ignore_eos: bool = False
    forced: ForcedOutput | None = None
    only_id: int | None = None
    read_id: int | None = None

    def logprobs(self, configured: int) -> int:
        """Returns how many alternatives to ask for with every output token."""
        # One is enough to see which tokens the engine wrote. What else is read is named, or read inside the engine.
        return configured if self.forced is None and self.read_id is None else 1


def body_of(
    request: EngineRequest, *, model: str, logprobs: int, access: Access, spell: Spell | None
) -> tuple[dict[str, Any], int]:
    """Returns the JSON body of `request`, and how many prompt tokens the server should count.

    Args:
        logprobs: alternatives wanted per output token.
        spell: turns token ids into text and counts the tokens of that text. The count can differ from the number of
            ids: where two pieces of a prompt meet, a tokenizer may make other tokens. None if the server takes ids.
    """
    dialect = access.dialect
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_output_tokens,
        "temperature": 0.0,
        "seed": 0,
    }
    if dialect.streams:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    logprobs = request.logprobs(logprobs)
    wanted = logprobs if dialect.most_logprobs is None else min(logprobs, dialect.most_logprobs)
    tokens = len(request.token_ids)
    if request.chat is not None:
        body |= chat_fields(request.chat, wanted if dialect.names_tokens_by == "id" else 0)
    else:
        body["prompt"] = ids = request.token_ids.tolist()
        if dialect.prompt != "token_ids" and spell is not None:
            skipped = 1 if dialect.prompt == "text_without_bos" else 0
            body["prompt"], spelled = spell(ids[skipped:])
            tokens = spelled + skipped + dialect.added_tokens
        if wanted:
            body |= {"logprobs": wanted, "return_tokens_as_token_ids": True}
    if request.stop:
        body["stop"] = list(request.stop)
    salt = request.cache_salt or access.cache_salt
    if salt:
        body["cache_salt"] = salt
    if request.ignore_eos:
        body["ignore_eos"] = True
    if request.forced is not None:
        body["vllm_xargs"] = request.forced.xargs()
    if request.only_id is not None:
        body["allowed_token_ids"] = [request.only_id]
    if request.read_id is not None:
        body["logprob_token_ids"] = [request.read_id]
    return {key: value for key, value in body.items() if key not in dialect.unknown_fields}, tokens
