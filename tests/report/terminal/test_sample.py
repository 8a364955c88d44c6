"""One sample as a person reads it: the right answer, and what every variant said."""

from __future__ import annotations

from pathlib import Path

from support.make_run import BAD, make_run

from kveval.report.terminal.sample import answers_text
from kveval.run.directory import RunDirectory


def test_every_variant_is_listed_with_its_outcome_and_its_whole_output(tmp_path: Path) -> None:
    run = RunDirectory(make_run(tmp_path / "run", answers=BAD))
    row = next(row for row in run.samples() if row.doc.get("answers"))
    names = run.read_manifest().variants
    records = {name: one for name in names for one in run.records(name) if one.sample_id == row.sample_id}
    long = next(iter(records.values())).model_copy(update={"output": "first line\nsecond line", "outcome": "wrong"})
    empty = long.model_copy(update={"output": ""})
    text = answers_text(row, {**records, "long": long, "empty": empty})
    assert text.startswith(f"sample {row.sample_id}: {row.task}, {row.context_length:,} tokens")
    assert f"right answer: {row.doc['answers'][0]}" in text
    for name, record in records.items():
        assert f"{name}: {record.outcome}, score {record.score:.3f}" in text
    assert "long: wrong" in text
    assert "    first line\n    second line\n" in text
    assert "    (no output)" in text
