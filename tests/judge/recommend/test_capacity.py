"""How long contexts may be, and how much memory a variant frees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.make_run import make_samples
from support.recommendations import document, run, variant

from kveval.judge.recommend.capacity import ContextLimit, context_limits, memory
from kveval.judge.run_data import load_run


def test_what_it_is_worth(tmp_path: Path) -> None:
    found = document(run(tmp_path / "run"), "--sequences", "100")
    memory = found["memory"]
    assert memory["capacity_ratio"] == 2.0
    assert memory["freed_share"] == pytest.approx(0.5)
    # 10 GiB hold 100,000 tokens of the baseline, and 200,000 of the candidate.
    assert memory["freed_gib"] == pytest.approx(5.0)
    assert memory["bytes_per_token"] == pytest.approx(10 * 2**30 / 200_000)
    limits = {limit["sequences"]: (limit["context_tokens"], limit["bound_by"]) for limit in found["context_limits"]}
    assert limits[1] == (8192, "quality")
    # 2,000 tokens each, whole blocks, less the 32 tokens of output.
    assert limits[100] == (2000 - 32, "cache")


def test_the_most_in_flight_is_taken_from_the_records(tmp_path: Path) -> None:
    path = run(tmp_path / "run", samples=make_samples(lengths=(8192,)))
    lines = (path / "records" / "fp8.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    for position, record in enumerate(records):
        # Four at once, back to back: the next begins at the moment one ends.
        record |= {"sent_at": float(position // 4), "total_ms": 1000.0}
    (path / "records" / "fp8.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert [limit["sequences"] for limit in document(path)["context_limits"]] == [1, 4]


def test_without_a_known_capacity_quality_alone_limits_a_context(tmp_path: Path) -> None:
    loaded = load_run(run(tmp_path / "run", variants={"fp8": variant("fp8", None)}))
    fp8 = loaded.manifest.variants["fp8"]
    assert context_limits(loaded, fp8, 4096, 100) == [ContextLimit(1, 4096, "quality")]
    assert memory(loaded, fp8).freed_gib is None


def test_more_sequences_than_the_cache_holds_get_no_context(tmp_path: Path) -> None:
    loaded = load_run(run(tmp_path / "run"))
    *_, last = context_limits(loaded, loaded.manifest.variants["fp8"], 8192, 200_000)
    assert last == ContextLimit(200_000, 0, "cache")
