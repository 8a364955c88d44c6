"""The first screen: what was measured, one answer for each candidate, and what to type next."""

from __future__ import annotations

from pathlib import Path

from support.make_run import BAD, GOOD, make_run, make_samples, scored

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.overview import Overview, overview


def of(path: Path) -> Overview:
    run = load_run(path)
    return overview(run, judge_run(run))


def test_what_was_measured_is_said_in_a_few_words(tmp_path: Path) -> None:
    found = of(make_run(tmp_path / "run", answers=GOOD))
    assert found.measured[-1].endswith(" questions")
    assert any(" to " in part or part.endswith("K") for part in found.measured)


def test_a_loss_says_do_not_ship_and_where(tmp_path: Path) -> None:
    (answer,) = of(make_run(tmp_path / "run", answers=BAD)).answers
    assert answer.word == "fail"
    assert answer.verdict == f"Do not ship {answer.variant}"
    assert answer.details.startswith("it loses ")


def test_a_pass_that_frees_memory_is_recommended_with_the_way_back(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": scored(0.9)},
                    variants={"fp8": {"facts": {"storage": "native", "effective_cache_dtype": "fp8",
                                                "kv_capacity_tokens": 200_000, "kv_capacity_ratio": 2.0}}})  # fmt: skip
    found = of(path)
    (answer,) = found.answers
    assert answer.verdict.startswith("fp8 passes up to ")
    assert found.recommendation is not None
    assert found.recommendation.chosen is not None
    assert found.next_command == f"kveval recommend {path}"
    assert found.recommendation.rollback is not None


def test_too_little_data_says_so_and_what_decides_it(tmp_path: Path) -> None:
    samples = make_samples(lengths=(2048,), haystacks=12, questions=5)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.8), "fp8": scored(0.8)})
    found = of(path)
    (answer,) = found.answers
    assert answer.verdict == "Not enough data for fp8"
    assert "the true change probably lies between" in answer.details
    assert found.why == "To decide fp8"
    assert found.next_command is not None
    assert found.next_command.startswith(f"kveval sweep --resume --out {path} --samples ")


def test_a_run_that_stopped_goes_on_first(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers=GOOD, manifest={"status": "incomplete"})
    assert of(path).next_command == f"kveval sweep --resume --out {path}"


def test_a_run_without_candidates_has_no_answers(tmp_path: Path) -> None:
    found = of(make_run(tmp_path / "run", answers={"bf16": scored(0.9)}))
    assert (found.answers, found.recommendation) == ((), None)


def test_a_run_that_nobody_can_judge_is_not_offered_as_a_reference(tmp_path: Path) -> None:
    # The second run of the baseline scores nothing: the baseline has collapsed.
    path = make_run(tmp_path / "run", answers={"bf16": scored(0.9), "again": scored(0.0), "fp8": scored(0.9)},
                    variants={"again": {"role": "aa", "of": "bf16"}})  # fmt: skip
    found = of(path)
    (answer,) = found.answers
    assert (answer.word, answer.verdict) == ("undecided", "fp8 is not judged")
    assert "bless" not in (found.next_command or "")
    assert found.recommendation is not None
    assert found.recommendation.chosen is None
