"""Runs whose samples were asked again without the prefix cache."""

from __future__ import annotations

from pathlib import Path

from kveval.run.directory import RunDirectory
from kveval.run.records import Outcome, SampleRow
from support.make_run import make_record, make_run, make_samples, scored

SAMPLES = make_samples(lengths=(2048,), haystacks=4, questions=10)


COUNTERS = {"prefix_cache_hits": 60.0, "prefix_cache_queries": 100.0}


def add_cold(path: Path, variant: str, outcomes: dict[str, Outcome], *, cached_tokens: int = 0) -> None:
    """Cold answers of the first samples: as the first time unless `outcomes` says otherwise."""
    warm = {record.sample_id: record for record in RunDirectory(path).records(variant)}
    with RunDirectory(path).locked() as run:
        for row in SAMPLES[:20]:
            outcome = outcomes.get(row.sample_id, warm[row.sample_id].outcome)
            output = row.doc["answers"][0] if outcome == "correct" else "something else"
            record = make_record(row, variant, outcome, output)
            run.append_cold(record.model_copy(update={"cached_tokens": cached_tokens}))


def make(path: Path) -> Path:
    variants = {
        "bf16": {"counters": COUNTERS, "planned_hit_tokens": 62},
        "bf16-aa": {"role": "aa", "of": "bf16"},
        "fp8": {"counters": COUNTERS, "planned_hit_tokens": 62},
    }
    answers = dict.fromkeys(variants, scored(0.5))
    return make_run(path, answers=answers, samples=SAMPLES, variants=variants)


def wrong(rows: list[SampleRow], path: Path, variant: str = "fp8") -> list[str]:
    records = {record.sample_id: record.outcome for record in RunDirectory(path).records(variant)}
    return [row.sample_id for row in rows if records[row.sample_id] == "wrong"]
