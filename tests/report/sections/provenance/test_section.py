from __future__ import annotations

from pathlib import Path

from support.make_run import make_run, make_samples, scored

from kveval.judge.run_data import load_run
from kveval.report.sections.provenance.section import Fact, facts_table


def test_facts_that_differ_from_the_baseline_are_marked(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        samples=make_samples(haystacks=2),
        answers={"bf16": scored(0.9), "fp8": scored(0.9)},
        variants={
            "fp8": {
                "facts": {"storage": "native", "attention_backend": "FLASHINFER", "kv_capacity_tokens": 200_000,
                          "declared": ["kv_capacity_tokens"], "startup_seconds": 3.0},
            }
        },
    )  # fmt: skip
    table = dict(facts_table(load_run(path)))
    assert table["attention_backend"] == [Fact(None, False), Fact("FLASHINFER", True)]
    assert table["kv_capacity_tokens"] == [Fact(100_000, False), Fact(200_000, True, "declared")]
    assert table["startup_seconds"] == [Fact(None, False), Fact(3.0, False)]
    assert "emulation" not in table
