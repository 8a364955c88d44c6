"""A request as one server wants it put: fields, and the form of its prompt."""

from __future__ import annotations

from typing import Any

from kveval.engines.client.answer import Request
from kveval.engines.client.chat_stream import chat_fields
from kveval.engines.openai.dialect import Dialect, Spell


def body_of(
    request: Request, *, model: str, logprobs: int, dialect: Dialect, spell: Spell | None, salt: str | None
) -> tuple[dict[str, Any], int]:
    """The body, and how many prompt tokens the server should count.

    Args:
        logprobs: alternatives wanted per output token.
        spell: token ids as text, with the number of tokens a tokenizer makes of it again; where two pieces of a prompt
            meet, it may make other tokens than the pieces have. None: the server takes token ids.
        salt: of requests without one of their own.
    """
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_output_tokens,
        "temperature": 0.0,
        "seed": 0,
    }
    if dialect.streams:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
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
    if request.cache_salt or salt:
        body["cache_salt"] = request.cache_salt or salt
    if request.ignore_eos:
        body["ignore_eos"] = True
    return {key: value for key, value in body.items() if key not in dialect.unknown_fields}, tokens
