"""What a run directory holds: manifest, samples, records, and the packing of logprobs."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from kveval.errors import RunDirectoryError
from kveval.run.facts import Facts, StoredFacts

SCHEMA_VERSION = 1

Outcome = Literal["correct", "wrong", "abstained", "empty", "truncated", "invalid_format", "unscored", "engine_error"]
OUTCOMES: tuple[Outcome, ...] = (
    "correct", "wrong", "abstained", "empty", "truncated", "invalid_format", "unscored", "engine_error",
)  # fmt: skip
Role = Literal["baseline", "candidate", "control", "aa"]
VariantStatus = Literal["planned", "running", "complete", "stopped", "refused", "failed"]
# A file name, so that nothing outside a run directory is ever opened for it.
VariantName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
RunStatus = Literal["running", "complete", "incomplete"]


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Finding(_Stored):
    """Something true about the engine that a reviewer must know."""

    level: Literal["info", "warning", "error"]
    code: str
    message: str


class RecordError(_Stored):
    kind: str
    message: str


class Record(_Stored):
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
        logprobs: the top alternatives of every output token, packed; see `pack_logprobs`.
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


class SampleRow(_Stored):
    """What is stored of a sample: everything but its prompt, which the manifest's configuration rebuilds."""

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


def _role(value: Any) -> Any:
    """Runs of kveval before 0.1.0 call an emulated control a twin."""
    return "control" if value == "twin" else value


class VariantRun(_Stored):
    """One variant of a run.

    Attributes:
        spec: the variant as configured, every default written out.
        role: baseline, candidate, control (a candidate's format emulated on the baseline's kernel) or aa (the baseline
            a second time).
        of: the variant a control or A/A run belongs to.
        facts: what the engine was established to be doing; all None before it started.
        smoke: what the engine answered before the first sample: perplexity of plain text, first output.
        counters: the engine's own counters over the asking phase.
        planned_hit_tokens: prompt tokens of that phase that the plan meant to come from the prefix cache.
    """

    name: str
    role: Annotated[Role, BeforeValidator(_role)]
    of: str | None = None
    spec: dict[str, Any]
    status: VariantStatus = "planned"
    reason: str | None = None
    facts: StoredFacts = Facts()
    findings: list[Finding] = []
    smoke: dict[str, Any] = {}
    counters: dict[str, float] = {}
    planned_hit_tokens: int = 0
    launches: int = 0
    asking_seconds: float = 0.0


class Manifest(_Stored):
    """What was run, on what, and how it ended.

    Attributes:
        config: the sweep configuration, every default written out.
        inputs: sha256 by input (model files, tokenizer, chat template, corpora, task files): what `--resume` compares.
        samples_sha256: over the sorted sample ids.
    """

    schema_version: int = SCHEMA_VERSION
    kveval_version: str
    run_id: str
    created: str
    finished: str | None = None
    status: RunStatus = "running"
    config: dict[str, Any]
    inputs: dict[str, str]
    seeds: dict[str, int]
    sampling: dict[str, Any]
    samples: int
    samples_sha256: str
    aa_sample_ids: list[str] | None = None
    baseline: str
    variants: dict[VariantName, VariantRun]
    versions: dict[str, str]
    machine: dict[str, Any]
    git: dict[str, Any] | None = None
    command: list[str] = []


# 64 MiB hold 400,000 output tokens with 20 alternatives each; a packed string can swell a thousandfold.
_MOST_LOGPROB_BYTES = 1 << 26


def pack_logprobs(token_ids: np.ndarray, logprobs: np.ndarray) -> str:
    """Packs the top alternatives of each output token into one string.

    Args:
        token_ids: int32 [tokens, k], most likely first, -1 where the engine gave fewer than k.
        logprobs: float32 [tokens, k], natural logarithm.

    Returns:
        base64 of zlib of the two arrays, little-endian, behind a header of two uint32: tokens, k.
    """
    header = np.array(token_ids.shape, dtype="<u4").tobytes()
    body = header + token_ids.astype("<i4").tobytes() + logprobs.astype("<f4").tobytes()
    return base64.b64encode(zlib.compress(body, 6)).decode("ascii")


def unpack_logprobs(packed: str) -> tuple[np.ndarray, np.ndarray]:
    """Inverse of `pack_logprobs`: (int32 [tokens, k], float32 [tokens, k]).

    Raises:
        RunDirectoryError: the string is not such a packing.
    """
    try:
        inflater = zlib.decompressobj()
        body = inflater.decompress(base64.b64decode(packed, validate=True), _MOST_LOGPROB_BYTES)
        if not inflater.eof:
            raise ValueError(f"cut off, or larger than {_MOST_LOGPROB_BYTES} bytes")
        tokens, k = (int(n) for n in np.frombuffer(body[:8], dtype="<u4"))
        ids = np.frombuffer(body, dtype="<i4", count=tokens * k, offset=8).reshape(tokens, k)
        logprobs = np.frombuffer(body, dtype="<f4", count=tokens * k, offset=8 + 4 * tokens * k).reshape(tokens, k)
    except (ValueError, zlib.error) as error:
        raise RunDirectoryError(f"a record's logprobs are broken: {error}") from error
    return ids, logprobs


def ids_sha256(ids: Iterable[str]) -> str:
    """sha256 over the sorted ids: two runs with the same value asked the same samples."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()
