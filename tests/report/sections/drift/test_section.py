from __future__ import annotations

from pathlib import Path

from support.make_run import make_run, make_samples, scored

from kveval.judge.run_data import load_run
from kveval.report.sections.drift.section import drift_rows


def test_candidates_and_controls_have_a_row_per_scope(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        samples=make_samples(haystacks=3, questions=2),
        answers={name: scored(0.9) for name in ("bf16", "fp8", "fp8-control", "again")},
        variants={"again": {"role": "aa", "of": "bf16"}, "fp8-control": {"role": "control", "of": "fp8"}},
    )
    rows = drift_rows(load_run(path))
    assert [(row.variant, str(row.scope)) for row in rows] == [
        (name, scope) for name in ("fp8", "fp8-control") for scope in ("overall", "2,048 tokens", "8,192 tokens")
    ]
    assert all(row.drift == row.aa for row in rows)
    assert {row.ratio for row in rows} <= {None, 1.0}
    assert len(drift_rows(load_run(path), ("cell",))) == 4
