from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from support.make_run import make_run, make_samples, scored

from kveval.report.documents.summary import summary
from kveval.report.terminal.summary import summary_table


def printed(path: Path, width: int = 80) -> str:
    file = io.StringIO()
    Console(width=width, file=file).print(summary_table(path))
    return file.getvalue()


def test_table_says_what_decides(run: Path) -> None:
    text = printed(run)
    assert "fp8  native fp8_e4m3, KV capacity x2.00" in text
    assert "int8  emulated int8 per_token_head, no memory saved" in text
    assert "nvfp4 is refused: this device cannot" in text
    assert "fp8: fails at" in text
    assert text.index("Do not ship fp8.") < text.index("verdict")
    assert "int8: passes at 2,048 tokens and at 8,192 tokens" in " ".join(text.split())
    assert "warning: scales are all 1.0" in text
    assert "0 of 600/0" in text
    assert text.count("refused") == 4
    assert "kernel -" in text
    assert max(map(len, text.splitlines())) <= 80


def test_an_undecided_verdict_says_what_would_decide_it(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "small",
        samples=make_samples(lengths=(2048,), haystacks=12, questions=5),
        answers={"bf16": scored(0.8), "fp8": scored(0.8)},
    )
    row = summary(path)["rows"][-1]
    assert row["verdict"] == "undecided"
    assert row["more_samples"]["likely"] > 500
    text = " ".join(printed(path).split())
    assert text.count("more questions") == 1
    assert f"at least {row['more_samples']['low']:,} more questions" in text
    assert "kveval sweep --resume --out" in text


def test_a_running_run_is_partial(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers={"bf16": scored(0.9), "fp8": scored(0.9)},
        manifest={"status": "running"},
        variants={"fp8": {"status": "running"}},
    )
    assert summary(path)["partial"] is True
    assert "PARTIAL: this run is running" in printed(path)
    assert summary(path)["headlines"][0]["word"] == "undecided"


def test_markup_and_escapes_in_names_are_text(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers={"bf16": scored(0.9), "fp8": scored(0.9)},
        variants={"fp8": {"status": "failed", "reason": "[red]died[/red] \x1b[2J"}},
    )
    text = printed(path)
    assert "[red]died[/red] ⟨U+001B⟩[2J" in text
    assert "\x1b" not in text


def test_what_was_taken_from_an_earlier_run_is_said(tmp_path: Path) -> None:
    reuse = {"path": "/runs/monday", "run_id": "abc", "answers": 90, "confirmed_by": "bf16"}
    path = make_run(
        tmp_path / "night",
        samples=make_samples(lengths=(2048,), haystacks=10, questions=10),
        answers={"bf16": scored(0.8), "fp8": scored(0.8)},
        variants={"bf16": {"reuse": reuse}, "fp8": {"reuse": {"path": "/runs", "refusal": "torch is another"}}},
    )
    text = " ".join(printed(path).split())
    assert "90 answers are taken from /runs/monday (run abc" in text
    assert "nothing is taken from an earlier run: torch is another" in text
    assert summary(path)["variants"]["bf16"]["reuse"]["answers"] == 90
