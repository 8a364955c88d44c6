"""Two sides in a terminal."""

from __future__ import annotations

from pathlib import Path

from support.make_run import BAD, make_run, make_samples
from support.printed import printed

from kveval.report.documents.diff import compare
from kveval.report.terminal.diff import diff_table


def test_every_group_is_a_row_that_80_columns_hold(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "r", samples=make_samples(haystacks=4), answers=BAD,
        variants={"int4": {"facts": {"storage": "emulated", "attention_backend": "[red]B"}}},
    )  # fmt: skip
    text = printed(diff_table(compare(f"{run}:bf16", f"{run}:int4")), width=80)
    words = " ".join(text.split())
    assert "int4 (emulated) of " in words
    assert "2,048 tokens" in text
    assert "drift over " in words
    assert "attention_backend: none -> [red]B" in words
    assert all(len(line) <= 80 for line in text.splitlines() if str(run) not in line)
