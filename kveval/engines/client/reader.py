"""Puts one answer together from the events of a server."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.chat_stream import ChatOutput
from kveval.engines.client.failures import RequestFailedError, broken_stream
from kveval.engines.client.timing import Chunk, token_chunks

T = TypeVar("T")

_TOKEN_PREFIX = "token_id:"  # noqa: S105
# Finish reasons of an output that the engine did not finish.
_BROKEN_OFF = ("abort", "error")


def named_by_id(event: Mapping[str, Any], ids: Mapping[str, int]) -> tuple[dict[str, Any], bool]:
    """Returns the event with ``token_id:N`` in place of texts, and whether every output token has an id.

    `ids` holds every token whose text no other token has. Alternatives without an id are left out. If an output token
    has no id, all logprobs of the event are left out: the rest would stand at wrong positions.
    """
    choices = list(_named(event.get("choices") or (), ids))
    return {**event, "choices": [choice for choice, _ in choices]}, all(whole for _, whole in choices)


def _named(choices: Any, ids: Mapping[str, int]) -> Iterator[tuple[dict[str, Any], bool]]:
    for choice in choices:
        logprobs = choice.get("logprobs")
        if not logprobs:
            yield choice, True
            continue
        tokens = logprobs["tokens"]
        if not all(token in ids for token in tokens):
            yield {**choice, "logprobs": None}, False
            continue
        top = [
            {f"token_id:{ids[token]}": value for token, value in (row or {}).items() if token in ids}
            for row in logprobs.get("top_logprobs") or ()
        ]
        yield {**choice, "logprobs": {"tokens": [f"token_id:{ids[t]}" for t in tokens], "top_logprobs": top}}, True


class AnswerReader:
    """Adds the events of one attempt to `answer`.

    Args:
        ids_by_text: ids of tokens by their texts, if the server names tokens by text.
        has_logprobs: logprobs were asked for. Others are left out: not every server spells them as vLLM does.
        is_counted: the server counts the tokens of prompts.
        forced_tokens: the output has so many tokens if it ends for its length. None = the model may end it.
    """

    def __init__(
        self,
        answer: EngineAnswer,
        *,
        is_chat: bool = False,
        ids_by_text: Mapping[str, int] | None = None,
        has_logprobs: bool = True,
        is_counted: bool = True,
        forced_tokens: int | None = None,
    ) -> None:
        self._answer = answer
        self._chat = ChatOutput() if is_chat else None
        self._ids_by_text = ids_by_text
        self._has_logprobs = has_logprobs
        self._is_counted = is_counted
        self._forced_tokens = forced_tokens
        self._chunks: list[Chunk] = []
        self._all_named = True
        self._is_timed = True
        self._last: Mapping[str, Any] = {}

    def take(self, objects: list[dict[str, Any]], elapsed_ms: float) -> None:
        """Adds what arrived as one event. Raises RequestFailedError if this is not what such a server sends."""
        # The first objects of a longer event came before its end, nobody knows when.
        self._is_timed = self._is_timed and len(objects) == 1
        for event in objects:
            try:
                self._take(event, elapsed_ms)
            except (AttributeError, TypeError, ValueError, LookupError, OverflowError) as error:
                raise broken_stream(f"unexpected answer: {event}") from error

    def _take(self, event: dict[str, Any], elapsed_ms: float) -> None:
        answer, self._last = self._answer, event
        if not self._has_logprobs:
            event = {**event, "choices": [{**one, "logprobs": None} for one in event.get("choices") or ()]}
        if self._ids_by_text is not None:
            event, all_named = named_by_id(event, self._ids_by_text)
            self._all_named = self._all_named and all_named
        if self._chat is not None and event.get("prompt_token_ids"):
            answer.prompt_token_ids = [int(token) for token in event["prompt_token_ids"]]
        answer.model = _optional(event.get("model"), str) or answer.model
        if event.get("usage"):
            self._take_usage(event["usage"])
        for spelled in event.get("choices") or ():
            choice = spelled if self._chat is None else self._chat.completion_choice(spelled)
            answer.text = answer.text + (choice.get("text") or "") if self._chat is None else self._chat.text
            answer.finish_reason = unicode(_optional(choice.get("finish_reason"), str) or "") or answer.finish_reason
            self._take_tokens(choice, elapsed_ms)

    def _take_usage(self, usage: Mapping[str, Any]) -> None:
        answer = self._answer
        prompt_tokens = _optional(usage.get("prompt_tokens"), int)
        answer.prompt_tokens = prompt_tokens if self._is_counted else None
        # A server that does not count says 0.
        answer.completion_tokens = _optional(usage.get("completion_tokens"), int) or None
        details = usage.get("prompt_tokens_details") or {}
        answer.cached_tokens = _optional(details.get("cached_tokens"), int)

    def _take_tokens(self, choice: dict[str, Any], elapsed_ms: float) -> None:
        answer, logprobs = self._answer, choice.get("logprobs")
        tokens = logprobs["tokens"] if logprobs else []
        has_output = bool(choice.get("text") or choice.get("is_output"))
        self._chunks.append(Chunk(round(elapsed_ms, 3), len(tokens), has_output))
        answer.output_token_ids += [_token_id(token) for token in tokens]
        for alternatives in (logprobs or {}).get("top_logprobs") or ():
            # JSON has no NaN: the engine writes null.
            values = {
                token: math.nan if value is None else float(value) for token, value in (alternatives or {}).items()
            }
            ranked = sorted(values.items(), key=lambda item: -item[1])
            answer.top_ids.append([_token_id(token) for token, _ in ranked])
            answer.top_logprobs.append([value for _, value in ranked])

    def finish(self, *, was_streamed: bool) -> None:
        """Checks that the answer is whole. Raises RequestFailedError if it was broken off or has logprobs like NaN."""
        answer = self._answer
        if not self._all_named:
            answer.output_token_ids, answer.top_ids, answer.top_logprobs = [], [], []
        if was_streamed and self._is_timed:
            self._time()
        if answer.finish_reason is None:
            # What has no choices is no part of an answer: it may say why the answer ended.
            said = "" if self._last.get("choices") or not self._last else f"; its last event: {self._last}"
            raise broken_stream(f"the stream ended without a finish_reason{said}")
        if answer.finish_reason in _BROKEN_OFF:
            message = f"the engine broke the output off (finish_reason {answer.finish_reason!r})"
            raise RequestFailedError("aborted", message, retry=True)
        if not all(math.isfinite(value) for row in answer.top_logprobs for value in row):
            raise RequestFailedError("non_finite", "the server returned non-finite logprobs", retry=False)

    def _time(self) -> None:
        answer = self._answer
        # Elsewhere the count may hold a token that ends the output and has no chunk.
        forced = None if self._forced_tokens is None else answer.completion_tokens or self._forced_tokens
        timed = token_chunks(self._chunks, forced)
        answer.token_ms = [chunk.at_ms for chunk in timed]
        counts = [max(chunk.named_tokens, 1) for chunk in timed]
        # Only the server knows how many tokens are in a chunk. Where its own count differs, nobody does.
        answer.chunk_tokens = counts if answer.completion_tokens in (None, sum(counts)) else []


def _token_id(token: str) -> int:
    number = int(token.removeprefix(_TOKEN_PREFIX))
    if not 0 <= number < 1 << 31:
        raise ValueError(f"{token} is not a token id")
    return number


def unicode(text: str) -> str:
    """Replaces halves of surrogate pairs, which JSON can spell but UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _optional(value: Any, kind: type[T]) -> T | None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{value!r} is not {kind.__name__}")
    return value
