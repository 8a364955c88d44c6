from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.make_run import make_run, make_samples, scored

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.sections.generated.section import generated_section


def test_only_outputs_of_unlike_lengths_have_rows(tmp_path: Path) -> None:
    samples = make_samples(lengths=(2048,), haystacks=8, questions=2)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.9), "int2": scored(0.9)})
    run = load_run(path)
    judgement = judge_run(run)
    assert generated_section(run, judgement) is None
    records = run.records["bf16"].assign(output_tokens=[10, 100] * 8)
    rows = generated_section(replace(run, records={**run.records, "bf16": records}), judgement)
    assert [(row.variant, row.first, row.last, row.baseline_tokens) for row in rows] == [
        ("int2", 0, 32, 10.0),
        ("int2", 65, 128, 100.0),
    ]
