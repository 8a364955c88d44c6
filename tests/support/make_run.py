"""A synthetic run directory, written the way a sweep writes it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kveval.run.directory import RunDirectory
from kveval.run.manifest import Manifest, VariantRun
from kveval.run.records import (
    ExpectedScore,
    Outcome,
    Record,
    RecordError,
    SampleRow,
    ids_sha256,
    pack_logprobs,
)

Answer = Callable[[SampleRow, np.random.Generator], "tuple[Outcome, str] | None"]
Expected = Callable[[SampleRow], "float | tuple[float, str] | dict[str, object] | str | None"]
"""A score, with its unit if that is not the probability, or keys of an `ExpectedScore`.

None: could not be forced. "none": has no reference."""
"""What a variant makes of a sample: outcome and output; None when it has no record of it."""


def make_samples(
    *,
    tasks: Mapping[str, str] | None = None,
    lengths: tuple[int, ...] = (2048, 8192),
    haystacks: int | None = None,
    questions: int = 10,
) -> list[SampleRow]:
    """`haystacks` of `questions` for every task (name -> family) and length.

    Without `haystacks`, 300 samples with a haystack each: so many that equal answers pass.
    """
    is_shared, haystacks = haystacks is not None, haystacks or 30
    rows = []
    for task, family in (tasks or {"niah_multikey": "needle"}).items():
        for length in lengths:
            for index in range(haystacks * questions):
                haystack, question = divmod(index, questions)
                address = f"{task}/{length}/{haystack}/{question}"
                digest = hashlib.sha256(address.encode()).hexdigest()
                rows.append(
                    SampleRow(
                        sample_id=digest[:16],
                        haystack_id=f"{task}-{length}-{haystack if is_shared else index}",
                        task=task,
                        family=family,
                        context_length=length,
                        prompt_tokens=length - 3,
                        prompt_sha256=digest,
                        first_token_ids=[1, 2, 3],
                        depth_percent=100 * question / questions,
                        max_output_tokens=32,
                        stop=[],
                        doc={
                            "question": f"What is the value of key {question}?",
                            "answers": [f"value-{digest[:6]}"],
                            "absent": False,
                            "excerpts": [f"… the value of key {question} is value-{digest[:6]}. …"],
                        },
                    )
                )
    return rows


def scored(share: float, *, seed: int = 1) -> Answer:
    """Right on `share` of the samples: the same ones for every variant with this seed, nested in `share`."""

    def answer(row: SampleRow, _: np.random.Generator) -> tuple[Outcome, str]:
        digest = hashlib.sha256(f"{seed}/{row.sample_id}".encode()).digest()
        right = int.from_bytes(digest[:4], "big") / 2**32 < share
        return ("correct", row.doc["answers"][0]) if right else ("wrong", "something else")

    return answer


def losing(share: float) -> Answer:
    """Wrong on `share` of what the baseline's `scored(0.9)` gets right, spread over all haystacks."""

    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        given = scored(0.9)(row, rng)
        return ("wrong", "lost") if given and given[0] == "correct" and rng.random() < share else given

    return answer


def failing(share: float) -> Answer:
    """An engine error on `share` of the samples."""

    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        return ("engine_error", "") if rng.random() < share else scored(0.9)(row, rng)

    return answer


GOOD = {"bf16": scored(0.9), "same": scored(0.9)}
BAD = {"bf16": scored(0.9), "int4": losing(0.2)}


def make_run(
    path: Path,
    *,
    answers: Mapping[str, Answer],
    samples: list[SampleRow] | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    manifest: Mapping[str, Any] | None = None,
    expected: Mapping[str, Expected] | None = None,
    seed: int = 0,
) -> Path:
    """Writes a run whose first variant in `answers` is the baseline and whose others are candidates.

    Args:
        variants: fields of `VariantRun` by variant, over the defaults; may name variants without answers.
        manifest: fields of `Manifest`, over the defaults.
        expected: expected scores of variants, or None for a sample that could not be forced.
    """
    rows = make_samples() if samples is None else samples
    names = list(dict.fromkeys([*answers, *(variants or {})]))
    runs = {
        name: VariantRun.model_validate(
            {
                "name": name,
                "role": "baseline" if name == names[0] else "candidate",
                "spec": {"name": name, "kv_cache_dtype": name},
                "status": "complete",
                "facts": {"engine_version": "0.32.0", "storage": "native", "kv_capacity_tokens": 100_000,
                          "kv_capacity_ratio": 1.0},
                **(variants or {}).get(name, {}),
            }
        )
        for name in names
    }  # fmt: skip
    values: dict[str, Any] = {
        "kveval_version": "0.1.0",
        "run_id": path.name,
        "created": "2026-01-02T03:04:05Z",
        "finished": "2026-01-02T04:04:05Z",
        "status": "complete",
        "config": {"model": {"path": "/models/demo"}},
        "inputs": {"model": "0" * 64},
        "seeds": {"samples": 0},
        "sampling": {"temperature": 0.0},
        "samples": len(rows),
        "samples_sha256": ids_sha256(row.sample_id for row in rows),
        "baseline": names[0],
        "variants": runs,
        "versions": {"python": "3.11"},
        "machine": {"cpus": 2},
        "command": ["kveval", "sweep", "demo"],
    }
    with RunDirectory(path).locked() as run:
        run.write_manifest(Manifest.model_validate({**values, **(manifest or {})}))
        run.write_samples(rows)
        for name, answer in answers.items():
            generator = np.random.default_rng([seed, *name.encode()])
            for row in rows:
                given = answer(row, generator)
                if given is not None:
                    record = make_record(row, name, *given)
                    run.append(with_expected(record, (expected or {}).get(name), row))
    return path


def with_expected(record: Record, expected: Expected | None, row: SampleRow) -> Record:
    if expected is None or record.outcome == "engine_error":
        return record
    found = expected(row)
    if found == "none":
        return record
    if found is None:
        return record.model_copy(update={"expected_error": RecordError(kind="non_finite", message="NaN")})
    if not isinstance(found, dict):
        found = dict(zip(("score", "unit"), found if isinstance(found, tuple) else (found,), strict=False))
    keys = {"unit": "probability", "temperature": 1.0, **found}
    return record.model_copy(update={"expected": ExpectedScore.model_validate(keys)})


def make_record(row: SampleRow, variant: str, outcome: Outcome, output: str) -> Record:
    failed = outcome == "engine_error"
    tokens = [] if failed else [ord(character) % 50 for character in output[:8]]
    ids = np.tile(np.arange(20, dtype=np.int32), (len(tokens), 1))
    ids[:, 0] = tokens
    logprobs = np.tile(np.log(np.r_[0.6, np.full(19, 0.02)]).astype(np.float32), (len(tokens), 1))
    return Record.model_validate(
        {
            "sample_id": row.sample_id,
            "haystack_id": row.haystack_id,
            "variant": variant,
            "task": row.task,
            "family": row.family,
            "context_length": row.context_length,
            "depth_percent": row.depth_percent,
            "outcome": outcome,
            "score": float(outcome == "correct"),
            "output": "" if failed else output,
            "finish_reason": None if failed else "stop",
            "prompt_tokens": None if failed else row.prompt_tokens,
            "cached_tokens": None,
            "output_tokens": len(tokens),
            "output_token_ids": tokens,
            "sent_at": 1.0,
            "ttft_ms": None if failed else 100.0,
            "itl_ms": None if failed else 10.0,
            "total_ms": 200.0,
            "logprobs": None if failed else pack_logprobs(ids, logprobs),
            "error": {"kind": "http", "message": "500"} if failed else None,
        }
    )


UNFINISHED = ("refused", "failed", "stopped", "running", "planned")


def unfinished(folder: Path, variant: str, status: str) -> Path:
    """Writes a run with a second run of its baseline, in which `variant` did not complete."""
    again = {"role": "aa", "of": "bf16"}
    return make_run(
        folder / "run",
        samples=make_samples(haystacks=25, questions=4),
        answers={**GOOD, "bf16-aa": scored(0.9)},
        variants={
            "bf16-aa": again,
            variant: {"status": status, "reason": "out of memory", **(again if variant == "bf16-aa" else {})},
        },
        manifest={"status": "incomplete"},
    )
