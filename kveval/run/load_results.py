"""``load.json`` of a run directory: what every server did under load. It is written after every level."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from kveval.errors import RunDirectoryError
from kveval.run.facts import Facts, Finding, StoredFacts
from kveval.run.manifest import SmokeResult, StoredRole, VariantName, VariantStatus
from kveval.run.storage import Stored, first_problem, to_json, write_atomically

LOAD_SCHEMA_VERSION = 1
LOAD_FILE = "load.json"

LevelKind = Literal["closed", "open", "longest"]


class Level(Stored):
    """One load: what is sent, and when.

    Attributes:
        kind: ``closed`` keeps `concurrency` requests in flight. ``open`` sends requests at random times, on average
            `request_rate` per second (a Poisson process). ``longest`` sends one request as long as the server takes.
        prompt_lengths: in tokens. If there are several, each is sent equally often.
        seed: of prompts and arrival times.
    """

    kind: LevelKind
    concurrency: int | None = None
    request_rate: float | None = None
    prompt_lengths: list[int]
    output_tokens: int
    requests: int
    warmup_requests: int
    seed: int

    @property
    def name(self) -> str:
        """For people, such as ``closed 8, 4096 tokens``."""
        return f"{self.load}, {self.prompt} tokens"

    @property
    def load(self) -> str:
        """``closed 8``, ``open 0.5/s`` or ``longest``."""
        if self.kind == "open":
            return f"open {self.request_rate:g}/s"
        return "longest" if self.kind == "longest" else f"closed {self.concurrency}"

    @property
    def prompt(self) -> str:
        """``4096``, or ``mixed 1024-4096``."""
        several = len(self.prompt_lengths) > 1
        return (
            f"mixed {min(self.prompt_lengths)}-{max(self.prompt_lengths)}" if several else str(self.prompt_lengths[0])
        )


class Spread(Stored):
    """The median and 95th percentile of `n` values (linear between neighbours). None without a value."""

    n: int
    median: float | None = None
    p95: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        known = np.array(list(values), dtype=float)
        if not len(known):
            return cls(n=0)
        median, p95 = np.percentile(known, [50, 95])
        return cls(n=len(known), median=round(float(median), 4), p95=round(float(p95), 4))


class Gauge(Stored):
    """A quantity that was read `n` times while the level ran."""

    n: int
    median: float | None = None
    peak: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> Gauge:
        known = list(values)
        if not known:
            return cls(n=0)
        return cls(n=len(known), median=round(float(np.median(known)), 4), peak=round(max(known), 4))


class RequestRow(Stored):
    """One counted request.

    Attributes:
        outcome: ``completed``, ``short_output`` (fewer tokens than asked for), or the kind of its error.
        sent_s: after the level began.
        latency_ms: request sent to last token.
    """

    outcome: str
    sent_s: float
    prompt_tokens: int
    output_tokens: int
    ttft_ms: float | None = None
    itl_ms: float | None = None
    latency_ms: float | None = None


class LevelResult(Stored):
    """What one level measured. Times are of completed requests.

    Attributes:
        outcomes: counted requests by outcome; they sum to the level's requests.
        duration_s: first request sent to last answer.
        ttft_ms: request sent to first token.
        itl_ms: mean gap between the tokens after the first, one value a request (what vLLM calls TPOT).
        gap_ms: every gap between two streamed chunks (what vLLM calls ITL): a tail here is a stalled stream.
        latency_ms: request sent to last token.
        output_tokens_per_s: output tokens of answers without an error over `duration_s`; total: prompt tokens too.
        running, waiting: sequences, as the server's metrics say; None where it has none.
        kv_usage_percent: of the KV cache.
        preemptions: during the level, by the server's counter.
        prefix_hit_tokens: prompt tokens found in the prefix cache, which should be none.
        engine_rss_bytes: resident memory of the server's processes; None where they run elsewhere.
        device_bytes: memory of the GPUs those processes hold; None without one.
    """

    level: Level
    outcomes: dict[str, int]
    warmup_outcomes: dict[str, int]
    duration_s: float
    ttft_ms: Spread
    itl_ms: Spread
    gap_ms: Spread
    latency_ms: Spread
    output_tokens: int
    prompt_tokens: int
    output_tokens_per_s: float
    total_tokens_per_s: float
    requests_per_s: float
    running: Gauge | None = None
    waiting: Gauge | None = None
    kv_usage_percent: Gauge | None = None
    preemptions: int | None = None
    prefix_hit_tokens: int | None = None
    engine_rss_bytes: Gauge | None = None
    device_bytes: int | None = None
    findings: list[Finding] = []
    requests: list[RequestRow] = []


class LoadVariant(Stored):
    """One variant under load.

    Attributes:
        spec: what decides its speed: engine flags, cache format, model.
        cold_start_s: launch to first token; `startup_s`: launch to a healthy server.
    """

    name: str
    role: StoredRole
    of: str | None = None
    spec: dict[str, Any]
    status: VariantStatus = "planned"
    reason: str | None = None
    facts: StoredFacts = Facts()
    smoke: SmokeResult = SmokeResult()
    findings: list[Finding] = []
    startup_s: float | None = None
    cold_start_s: float | None = None
    levels: list[LevelResult] = []

    def result(self, level: Level) -> LevelResult | None:
        return next((result for result in self.levels if result.level == level), None)


class LoadDocument(Stored):
    """What every variant of a run did under load.

    Attributes:
        inputs: sha256 by model file: what a resumed run must have too.
        config: the load's configuration, every default written out.
    """

    schema_version: int = LOAD_SCHEMA_VERSION
    kveval_version: str
    created: str
    finished: str | None = None
    baseline: str
    config: dict[str, Any]
    inputs: dict[str, str]
    max_model_len: Annotated[int, Field(gt=0)]
    variants: dict[VariantName, LoadVariant]
    versions: dict[str, str]
    machine: dict[str, Any]
    git: dict[str, Any] | None = None
    command: list[str] = []

    @property
    def is_complete(self) -> bool:
        return all(variant.status == "complete" for variant in self.variants.values())


def read_load(run_dir: Path) -> LoadDocument | None:
    """Returns what was measured under load, None if nothing was. Raises RunDirectoryError if it cannot be read."""
    path = run_dir / LOAD_FILE
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunDirectoryError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        document = LoadDocument.model_validate_json(text)
    except ValidationError as error:
        raise RunDirectoryError(f"{path}: {first_problem(error)}") from error
    if document.schema_version > LOAD_SCHEMA_VERSION:
        raise RunDirectoryError(
            f"{path}: schema_version {document.schema_version} is newer than this kveval reads "
            f"({LOAD_SCHEMA_VERSION}); update kveval"
        )
    return document


def write_load(run_dir: Path, document: LoadDocument) -> None:
    write_atomically(run_dir / LOAD_FILE, to_json(document, indent=1) + "\n")
