"""What a run directory keeps of each sample, and of each answer to it."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import Field

from kveval.errors import RunDirectoryError
from kveval.run.arrival import arrived_at_once
from kveval.run.storage import Stored

Outcome = Literal[
    "correct", "wrong", "abstained", "refused", "empty", "truncated", "truncated_thinking", "invalid_format",
    "unscored", "engine_error",
]  # fmt: skip
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

ExpectedMethod = Literal["forced_decode", "stepwise"]
"""How probabilities were read: an engine was forced to write a text, or asked for each of its tokens by a request."""

# 64 MiB hold 400,000 output tokens with 20 alternatives each. A small string can unpack to a thousand times its size.
_MAX_LOGPROBS_BYTES = 1 << 26
_SHOWN_IDS = 10


class SampleRow(Stored):
    """Everything about a sample except its prompt, which is rebuilt from the manifest's configuration.

    Attributes:
        first_look: the first interim look that counts the sample.
    """

    sample_id: str
    haystack_id: str
    task: str
    family: str
    context_length: int
    prompt_tokens: int
    prompt_sha256: str
    first_token_ids: list[int]
    depth_percent: float | None
    max_output_tokens: int
    stop: list[str]
    doc: dict[str, Any]
    first_look: Annotated[int, Field(ge=1)] = 1


def ids_sha256(ids: Iterable[str]) -> str:
    """Returns sha256 over the sorted ids. Two runs with the same value asked the same samples."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()


def samples_without_record(asked: Iterable[str], recorded: Iterable[str]) -> str:
    """Returns a sentence that counts the samples that have no record, and names the first of them."""
    ids, whole = list(asked), set(recorded)
    lost = [sample_id for sample_id in ids if sample_id not in whole]
    more = f" and {len(lost) - _SHOWN_IDS} more" if len(lost) > _SHOWN_IDS else ""
    named = f" ({', '.join(lost[:_SHOWN_IDS])}{more})" if lost else ""
    return f"{len(lost)} of {len(ids)} samples have no record{named}"


def too_few_answers(unanswered: int, asked: int, most_share: float, first_error: str | None) -> str | None:
    """Returns why a variant says nothing about quality, or None if at most `most_share` of its answers are missing.

    The sweep and the gate say it in the same words.
    """
    if unanswered <= most_share * asked:
        return None
    example = f"; the first error: {first_error}" if first_error else ""
    return (
        f"{unanswered} of {asked} questions have no answer ({unanswered / asked:.1%}, and the limit is "
        f"{most_share:.1%}){example}"
    )


class RecordError(Stored):
    kind: str
    message: str


class ExpectedScore(Stored):
    """The score that a sample would get on average if its answers were sampled at the serving temperature.

    Attributes:
        unit: what the score counts. Scores of different units must not be averaged.
        temperature: of the probabilities.
        method: how they were read. Scores of different methods are not compared.
        parts: the score by part of the answer, such as "format", "value" or "q1" (the first quarter of the output).
        lead: words that were forced before the answer and not scored.
        token_ids: by forced text, its tokens; `logprobs`: the natural logarithm of each token's probability, at most 0
            and at least -9999, which stands for a probability of 0.
    """

    score: float = Field(ge=0, le=1)
    unit: Literal["probability", "token_accuracy", "entries"]
    temperature: float = Field(gt=0)
    method: ExpectedMethod = "forced_decode"
    parts: dict[str, float] = {}
    lead: str = ""
    token_ids: list[list[int]] = []
    logprobs: list[list[float]] = []


class Record(Stored):
    """One sample answered by one variant.

    Attributes:
        score: the task's decision metric in [0, 1]; 0 when the engine failed or the sample has no right answer.
        metrics: the task's other metrics.
        steps: whether each step of a chain is right. Empty for answers that are no chain.
        step_tokens: output tokens up to the end of each step, estimated from its place in the text; None for a step
            that is missing.
        degenerate: how the output has degenerated, or "none". None in records of versions that did not look.
        prompt_tokens: as the engine counted them.
        cached_tokens: prompt tokens answered from the prefix cache; None when the engine does not say.
        sent_at: Unix time in seconds.
        output_tokens: as the engine counted them; if it does not count, those it named or streamed.
        ttft_ms: request sent to first token; None if the stream does not tell.
        itl_ms: mean gap between tokens after the first; None with fewer than two, or if the stream does not tell.
        token_ms: arrival of each streamed chunk with tokens, milliseconds after `sent_at`.
        chunk_tokens: tokens in each chunk, aligned with `token_ms`. Empty if that is not known.
        logprobs: the top alternatives of every output token, packed by `pack_logprobs`.
        attempts: requests sent for this record, retries included.
        reused_from: run_id of the earlier run that asked the sample. None if this run did.
        expected: None if the sample has no reference, or the engine does not tell the probabilities of given texts.
        expected_error: why there is no expected score, where there should be one.
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
    steps: list[bool] = []
    step_tokens: list[int | None] = []
    degenerate: Literal["none", "loop", "scripts", "unrelated"] | None = None
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
    reused_from: str | None = None
    expected: ExpectedScore | None = None
    expected_error: RecordError | None = None

    @property
    def arrived_at_once(self) -> bool:
        """Whether the answer was collected on its way, so that it has neither a TTFT nor an ITL."""
        return arrived_at_once(self.token_ms, self.output_tokens)


class SentinelRecord(Record):
    """A question from the start of a variant, asked again later: the same server must still answer as it did.

    Sentinels enter no score. The first answer is the variant's record of the same `sample_id`.

    Attributes:
        asked_after: questions the variant had answered when this one was asked.
    """

    purpose: Literal["sentinel"] = "sentinel"
    asked_after: int = Field(ge=0)


def pack_logprobs(token_ids: np.ndarray, logprobs: np.ndarray) -> str:
    """Packs the top alternatives of each output token into one string.

    Args:
        token_ids: int32 [tokens, k], most likely first, -1 where the engine gave fewer than k.
        logprobs: float32 [tokens, k], natural logarithm.

    Returns:
        base64 of zlib of a header (two uint32: tokens, k) and the two arrays, all little-endian.
    """
    header = np.array(token_ids.shape, dtype="<u4").tobytes()
    body = header + token_ids.astype("<i4").tobytes() + logprobs.astype("<f4").tobytes()
    return base64.b64encode(zlib.compress(body, 6)).decode("ascii")


def unpack_logprobs(packed: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns what `pack_logprobs` packed. Raises RunDirectoryError if it did not make this string."""
    try:
        inflater = zlib.decompressobj()
        body = inflater.decompress(base64.b64decode(packed, validate=True), _MAX_LOGPROBS_BYTES)
        if not inflater.eof:
            raise ValueError(f"cut off, or larger than {_MAX_LOGPROBS_BYTES} bytes")
        tokens, k = (int(n) for n in np.frombuffer(body[:8], dtype="<u4"))
        ids = np.frombuffer(body, dtype="<i4", count=tokens * k, offset=8).reshape(tokens, k)
        logprobs = np.frombuffer(body, dtype="<f4", count=tokens * k, offset=8 + 4 * tokens * k).reshape(tokens, k)
    except (ValueError, zlib.error) as error:
        raise RunDirectoryError(f"a record's logprobs are broken: {error}") from error
    return ids, logprobs
