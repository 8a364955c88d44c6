"""A recommendation in a terminal."""

from __future__ import annotations

from pathlib import Path

from support.make_run import scored
from support.printed import printed
from support.recommendations import losing, run, variant

from kveval.judge.recommend.recommend import recommend
from kveval.report.terminal.recommendation import recommendation_table


def text_of(path: Path) -> str:
    return " ".join(printed(recommendation_table(recommend(path))).split())


def test_what_to_serve_what_it_is_worth_and_the_way_back(tmp_path: Path) -> None:
    text = text_of(run(tmp_path / "run"))
    assert text.startswith("serve with fp8")
    assert "memory: fits 2.00x the baseline's tokens, 50% less for the same tokens" in text
    assert "context for 1 sequence: 8,192 tokens (the longest proven safe)" in text
    assert "to go back to bf16:" in text
    assert text.endswith("recommend: fp8, exit code 0")


def test_every_other_candidate_says_why_not(tmp_path: Path) -> None:
    answers = {"bf16": scored(0.9), "fp8": scored(0.9), "int4": losing(0.3)}
    text = text_of(run(tmp_path / "run", answers, {"int4": variant("int4_per_token_head", 3.6)}))
    assert "not recommended regression int4" in text


def test_without_one_the_baseline_stays(tmp_path: Path) -> None:
    text = text_of(run(tmp_path / "run", {"bf16": scored(0.9), "fp8": losing(0.3)}))
    assert text.startswith("stay with bf16: every candidate loses more than the margin")
    assert text.endswith("recommend: the baseline, exit code 1")
