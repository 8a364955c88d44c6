from __future__ import annotations

from pathlib import Path

from support.make_run import make_run, make_samples, scored

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.html.report import build_report
from kveval.report.sections.cost.section import costs
from kveval.run.directory import RunDirectory


def test_counters_give_the_share_of_prefix_hits(tmp_path: Path) -> None:
    counters = {"prompt_tokens": 100.0, "prompt_tokens_cached": 40.0}
    path = make_run(
        tmp_path / "run",
        samples=make_samples(haystacks=2, questions=3),
        answers={"bf16": scored(0.9), "fp8": scored(0.9), "int8": scored(0.9)},
        variants={
            "fp8": {"counters": {**counters, "prefix_cache_queries": 50.0, "prefix_cache_hits": 30.0}},
            "int8": {"counters": counters},
        },
    )
    run = load_run(path)
    found = costs(run, judge_run(run))
    assert [row.hit_share for row in found.rows] == [None, 0.6, 0.4]
    assert [row.times.ttft_ms for row in found.rows] == [100.0] * 3
    assert [(row.variant, row.context_length, row.n) for row in found.times][:2] == [
        ("bf16", 2048, 6),
        ("fp8", 2048, 6),
    ]


def test_a_model_that_is_gone_leaves_the_reported_capacity(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", samples=make_samples(haystacks=2), answers={"bf16": scored(0.9)})
    run = load_run(path)
    ((name, capacity),) = costs(run, judge_run(run)).capacities
    assert (name, capacity.theory_tokens, capacity.measured_tokens) == ("bf16", None, 100_000)
    assert capacity.reason == "cannot read the model's config.json"


def test_answers_that_arrived_at_once_have_no_times(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        samples=make_samples(haystacks=2, questions=3),
        answers={"bf16": scored(0.9), "fp8": scored(0.9)},
    )
    with RunDirectory(path).locked() as directory:
        for record in list(directory.records("fp8")):
            directory.append(record.model_copy(update={"token_ms": [900.0] * 8, "output_tokens": 8}))
    run = load_run(path)
    base, fp8 = costs(run, judge_run(run)).rows
    assert (base.times.at_once, base.times.ttft_ms) == (0, 100.0)
    assert (fp8.times.at_once, fp8.times.ttft_ms, fp8.times.itl_ms) == (12, None, None)
    page = build_report(path).read_text(encoding="utf-8")
    assert "fp8: 12 of 12 answers arrived at once and not token by token" in " ".join(page.split())
