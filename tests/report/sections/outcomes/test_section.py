from __future__ import annotations

from pathlib import Path

from support.make_run import make_run, make_samples, scored

from kveval.judge.run_data import load_run
from kveval.report.sections.outcomes.section import outcomes_table


def test_every_sample_is_counted_once(tmp_path: Path) -> None:
    samples = make_samples(haystacks=3, questions=4)
    path = make_run(
        tmp_path / "run",
        samples=samples,
        answers={
            "bf16": scored(1.1),
            "fp8": lambda row, _: ("engine_error", "") if row.context_length > 4096 else None,
        },
    )
    rows = {(name, length): counts for name, length, counts in outcomes_table(load_run(path))}
    assert rows["bf16", None]["correct"] == 24
    assert rows["fp8", 2048]["missing"] == rows["fp8", 8192]["engine_error"] == 12
    assert all(sum(counts.values()) in (12, 24) for counts in rows.values())
