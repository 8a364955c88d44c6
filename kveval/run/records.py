"""The record of one sample answered by one variant."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from kveval.run.storage import Stored

Outcome = Literal["correct", "wrong", "abstained", "empty", "truncated", "invalid_format", "unscored", "engine_error"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class RecordError(Stored):
    kind: str
    message: str


class Record(Stored):
    """One sample answered by one variant.

    Attributes:
        score: the task's decision metric in [0, 1]; 0 when the engine failed or the sample has no right answer.
        metrics: the task's other metrics.
        prompt_tokens: as the engine counted them.
        cached_tokens: prompt tokens answered from the prefix cache; None when the engine does not say.
        sent_at: Unix time in seconds.
        ttft_ms: request sent to first token; None without a token.
        itl_ms: mean gap between tokens after the first; None with fewer than two.
        token_ms: arrival of each streamed chunk, milliseconds after `sent_at`.
        chunk_tokens: tokens in each chunk, aligned with `token_ms`.
        logprobs: the top alternatives of every output token, packed by `pack_logprobs`.
        attempts: requests sent for this record, retries included.
    """

    sample_id: str
    haystack_id: str
    variant: str
    task: str
    family: str
    context_length: int = Field(gt=0)
    depth_percent: float | None
    outcome: Outcome
    score: float = Field(ge=0, le=1)
    metrics: dict[str, float] = {}
    output: str
    finish_reason: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int
    output_token_ids: list[int] = []
    sent_at: float
    ttft_ms: float | None
    itl_ms: float | None
    total_ms: float
    token_ms: list[float] = []
    chunk_tokens: list[int] = []
    logprobs: str | None = None
    attempts: int = 1
    error: RecordError | None = None
