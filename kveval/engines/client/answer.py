"""What a server answered to one request, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass, field

from kveval.run.arrival import arrived_at_once


@dataclass(slots=True)
class EngineAnswer:
    """What came back, or why nothing did.

    Attributes:
        sent_at: Unix time in seconds of the last attempt.
        token_ms: arrival of each chunk with tokens, milliseconds after `sent_at`. Empty if the answer, or all of its
            events, came in one piece.
        chunk_tokens: tokens in each chunk, aligned with `token_ms`. Empty if that is not known.
        top_ids: one list of token ids per output token, most likely first; `top_logprobs` is aligned with it.
        completion_tokens: output tokens as the server counted them.
        prompt_token_ids: what a chat endpoint made of its messages. None if it does not say.
        sent_tokens: prompt tokens that were sent, as we count them. None = those of the sample.
        model: the model's name in the answer.
        error_kind: bad_request, http_NNN, timeout, connection, broken_stream, aborted, non_finite, other_model or None.
    """

    text: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    output_token_ids: list[int] = field(default_factory=list)
    sent_at: float = 0.0
    total_ms: float = 0.0
    token_ms: list[float] = field(default_factory=list)
    chunk_tokens: list[int] = field(default_factory=list)
    top_ids: list[list[int]] = field(default_factory=list)
    top_logprobs: list[list[float]] = field(default_factory=list)
    prompt_token_ids: list[int] | None = None
    sent_tokens: int | None = None
    model: str | None = None
    attempts: int = 1
    error_kind: str | None = None
    error_message: str = ""

    @property
    def ttft_ms(self) -> float | None:
        """Returns the time to the first token. None if the stream does not tell."""
        return self.token_ms[0] if self.token_ms and not self.arrived_at_once else None

    @property
    def itl_ms(self) -> float | None:
        """Returns the mean gap between the tokens after the first. None if the stream does not tell."""
        after_first = self.output_tokens - 1
        if after_first < 1 or len(self.token_ms) < 2 or self.arrived_at_once:
            return None
        return (self.token_ms[-1] - self.token_ms[0]) / after_first

    @property
    def arrived_at_once(self) -> bool:
        """Whether the answer was collected on its way, so that its chunks say nothing about its tokens."""
        return arrived_at_once(self.token_ms, self.output_tokens)

    @property
    def output_tokens(self) -> int:
        """Returns the output tokens as the server counts them. If it does not count: those it named, or its chunks."""
        return self.completion_tokens or len(self.output_token_ids) or sum(self.chunk_tokens)

    @property
    def is_refusal(self) -> bool:
        """Whether the server no longer answers us: it refuses the key, or another model answers."""
        return self.error_kind in ("http_401", "http_403", "other_model")

    @property
    def is_server_failure(self) -> bool:
        """Whether the cause may be the server and not this one request."""
        return self.error_kind is not None and self.error_kind not in ("bad_request", "non_finite")
