"""Whole runs judged: pairing, levels, noise, attribution, and what never passes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.make_run import Answer, make_run, make_samples, scored

from kveval.config.judge import Policy
from kveval.errors import IncomparableError, RunDirectoryError
from kveval.judge.blessed.bless import bless
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.comparison.scope import Scope
from kveval.judge.evidence.flipped import flipped_samples
from kveval.judge.run_data import check_comparable, load_run
from kveval.report.documents.diff import compare
from kveval.run.directory import RunDirectory
from kveval.run.records import Outcome
from kveval.run.samples import SampleRow


def losing(share: float, of: Answer) -> Answer:
    """Answers as `of`, but wrong on `share` of its correct samples."""

    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        given = of(row, rng)
        lost = rng.random() < share
        return ("wrong", "lost") if given and given[0] == "correct" and lost else given

    return answer


def failing(share: float, of: Answer) -> Answer:
    """Answers as `of`, but with an engine error on `share` of the samples."""

    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        return ("engine_error", "") if rng.random() < share else of(row, rng)

    return answer


def absent(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
    return None


def judge(path: Path) -> Judgement:
    return judge_run(load_run(path))


def overall(judgement: Judgement, variant: str) -> Comparison:
    return judgement.of(variant, "overall")[0]


def words(judgement: Judgement, variant: str) -> set[str]:
    return {c.verdict.word for c in judgement.comparisons if c.variant == variant and c.verdict}


def test_equal_variants_pass_and_a_losing_one_fails(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers={"bf16": scored(0.9), "same": scored(0.9), "fp8": losing(0.08, scored(0.9))},
    )
    judgement = judge(path)
    assert [(h.variant, h.word) for h in headlines(judgement)] == [("same", "pass"), ("fp8", "fail")]
    same, fp8 = overall(judgement, "same"), overall(judgement, "fp8")
    assert same.identical == 1
    assert (same.difference.delta, same.difference.n, same.difference.clusters) == (0, 600, 60)
    assert fp8.flips.gained == 0
    assert fp8.difference.delta == pytest.approx(-fp8.flips.lost / 600)
    assert fp8.candidate_score.mean == pytest.approx(fp8.baseline_score.mean + fp8.difference.delta)
    assert fp8.outcomes["candidate"]["wrong"] == fp8.outcomes["baseline"]["wrong"] + fp8.flips.lost
    assert sum(fp8.outcomes["candidate"].values()) == fp8.asked == 600


def test_levels_cover_every_cell(tmp_path: Path) -> None:
    samples = make_samples(tasks={"a": "needle", "b": "needle", "c": "qa"}, haystacks=6, questions=2)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.7), "fp8": scored(0.6)})
    judgement = judge(path)
    assert [c.scope for c in judgement.of("fp8", "length")] == [
        Scope("length", context_length=2048),
        Scope("length", context_length=8192),
    ]
    assert [(c.scope.family, c.asked) for c in judgement.of("fp8", "family")] == [("needle", 48), ("qa", 24)]
    assert len(judgement.of("fp8", "cell")) == 6
    assert sum(c.asked for c in judgement.of("fp8", "cell")) == overall(judgement, "fp8").asked == 72


def test_one_length_is_one_hypothesis(tmp_path: Path) -> None:
    samples = make_samples(lengths=(2048,))
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.9), "fp8": scored(0.8)})
    judgement = judge(path)
    for comparison in judgement.comparisons:
        assert comparison.verdict is not None
        assert comparison.verdict.p_holm == comparison.difference.p


def test_engine_errors_are_counted_and_never_pass(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers={
            "bf16": scored(0.9), "few": failing(0.005, scored(0.9)), "many": failing(0.1, scored(0.9)),
            "all": failing(1.1, scored(0.9)), "none": absent,
        },
    )  # fmt: skip
    judgement = judge(path)
    many = overall(judgement, "many")
    errors = many.outcomes["candidate"]["engine_error"]
    assert errors > 30
    assert many.difference.n == 600 - errors
    assert many.difference.delta == 0
    assert many.verdict is not None
    assert many.verdict.word == "undecided"
    assert f"{errors} of 600 samples have no answer" in many.verdict.reason
    assert words(judgement, "all") == words(judgement, "none") == {"undecided"}
    assert overall(judgement, "none").outcomes["candidate"]["missing"] == 600
    few = overall(judgement, "few")
    assert few.difference.n < 600
    assert few.verdict is not None
    assert few.verdict.word == "pass"


@pytest.mark.parametrize("status", ["refused", "failed", "stopped", "running", "planned"])
def test_an_unfinished_variant_does_not_pass(tmp_path: Path, status: str) -> None:
    path = make_run(
        tmp_path / "run",
        answers={"bf16": scored(0.9), "fp8": scored(0.9)},
        variants={"fp8": {"status": status, "reason": "the engine said no"}},
    )
    judgement = judge(path)
    assert words(judgement, "fp8") == {"undecided"}
    assert "the engine said no" in headlines(judgement)[0].reason


def test_an_unfinished_baseline_passes_nothing(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers={"bf16": scored(0.9), "fp8": scored(0.9)},
        variants={"bf16": {"status": "stopped"}},
    )
    assert words(judge(path), "fp8") == {"undecided"}


def test_floor_and_ceiling_carry_no_pass(tmp_path: Path) -> None:
    samples = make_samples(tasks={"easy": "needle", "hard": "needle", "good": "needle"}, lengths=(2048,))
    shares = {"easy": 1.1, "hard": -0.1, "good": 0.8}

    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        return scored(shares[row.task])(row, rng)

    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": answer, "fp8": answer})
    judgement = judge(path)
    cells = {c.scope.task: c for c in judgement.of("fp8", "cell")}
    verdicts = {task: c.verdict.word for task, c in cells.items() if c.verdict}
    assert verdicts == {"easy": "undecided", "hard": "undecided", "good": "pass"}
    assert cells["easy"].insensitive_cells == ("easy at 2,048 tokens: the baseline is at the ceiling (100.0)",)
    assert cells["hard"].insensitive_cells == ("hard at 2,048 tokens: the baseline is at the floor (0.0)",)
    pooled = overall(judgement, "fp8")
    assert pooled.difference.n == 900
    assert pooled.sensitive.n == 300


def test_leaving_the_ceiling_fails(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(1.1), "int2": scored(-0.1)})
    judgement = judge(path)
    assert words(judgement, "int2") == {"fail"}
    assert headlines(judgement)[0].reason.startswith("fails overall: -100.0 points")


def test_a_control_divides_the_loss(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers={"bf16": scored(0.91), "fp8": scored(0.853), "fp8-control": scored(0.913)},
        variants={"fp8-control": {"role": "control", "of": "fp8"}},
    )
    judgement = judge(path)
    found = overall(judgement, "fp8").attribution
    assert found is not None
    assert found.control == "fp8-control"
    assert found.format.delta is not None
    assert found.kernel.delta is not None
    assert found.total.delta == pytest.approx(found.format.delta + found.kernel.delta)
    assert abs(found.format.delta) < 0.02
    assert found.kernel.high is not None
    assert found.kernel.high < 0
    assert overall(judgement, "fp8-control").verdict is None
    assert [h.variant for h in headlines(judgement)] == ["fp8"]


def test_noise_stands_beside_over_the_samples_of_the_second_run(tmp_path: Path) -> None:
    samples = make_samples()
    covered = [row.sample_id for row in samples[::3]]

    def again(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        return losing(0.05, scored(0.9))(row, rng) if row.sample_id in covered else None

    path = make_run(
        tmp_path / "run",
        samples=samples,
        answers={"bf16": scored(0.9), "fp8": losing(0.5, scored(0.9)), "bf16-aa": again},
        variants={"bf16-aa": {"role": "aa", "of": "bf16"}},
        manifest={"aa_sample_ids": covered},
    )
    judgement = judge(path)
    fp8 = overall(judgement, "fp8")
    assert fp8.noise is not None
    assert fp8.noise.n == 200
    assert 0 < fp8.noise.aa.lost < 25 < fp8.noise.candidate.lost < fp8.flips.lost
    assert fp8.noise.aa_identical == pytest.approx(1 - fp8.noise.aa.lost / 200)
    aa = overall(judgement, "bf16-aa")
    assert (aa.asked, aa.verdict) == (200, None)

    run = load_run(path)
    flipped = list(flipped_samples(run, run.manifest.variants["fp8"]))
    assert len(flipped) == fp8.flips.lost
    assert {f.direction for f in flipped} == {"lost"}
    assert {f.aa_flipped is not None for f in flipped} == {True, False}
    assert all((f.aa_flipped is not None) == (f.sample_id in covered) for f in flipped)


def test_a_run_without_samples_is_undecided(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", samples=[], answers={"bf16": scored(1), "fp8": scored(1)})
    judgement = judge(path)
    assert [h.word for h in headlines(judgement)] == ["undecided"]


def test_one_sample(tmp_path: Path) -> None:
    samples = make_samples(lengths=(2048,), haystacks=1, questions=1)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(1.1), "fp8": scored(-0.1)})
    judgement = judge(path)
    assert words(judgement, "fp8") == {"undecided"}
    assert overall(judgement, "fp8").flips.lost == 1


class TestLoading:
    def test_a_folder_without_a_run(self, tmp_path: Path) -> None:
        with pytest.raises(RunDirectoryError, match="not a run directory"):
            load_run(tmp_path)

    def test_other_samples_than_the_manifest_says(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers={"bf16": scored(1)})
        with RunDirectory(path).locked() as run:
            run.write_samples(make_samples(haystacks=2))
        with pytest.raises(RunDirectoryError, match="holds 40 samples that are not the 600 of the manifest"):
            load_run(path)

    def test_records_of_unknown_samples(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", samples=make_samples(haystacks=2), answers={"bf16": scored(1)})
        other = make_run(tmp_path / "other", samples=make_samples(haystacks=3), answers={"bf16": scored(1)})
        RunDirectory(path).records_path("bf16").write_bytes(RunDirectory(other).records_path("bf16").read_bytes())
        with pytest.raises(RunDirectoryError, match=r"is not in samples\.jsonl"):
            load_run(path)

    def test_a_torn_last_line_is_a_missing_sample(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": scored(0.9)})
        records = RunDirectory(path).records_path("fp8")
        records.write_bytes(records.read_bytes()[:-20])
        assert overall(judge(path), "fp8").outcomes["candidate"]["missing"] == 1

    def test_a_run_stopped_before_its_samples_were_written(self, tmp_path: Path) -> None:
        path = make_run(tmp_path / "run", answers={"bf16": scored(1), "fp8": scored(1)}, manifest={"status": "running"})
        RunDirectory(path).samples_path.unlink()
        for variant in ("bf16", "fp8"):
            RunDirectory(path).records_path(variant).unlink()
        assert [h.word for h in headlines(judge(path))] == ["undecided"]


class TestComparable:
    def test_equal_runs(self, tmp_path: Path) -> None:
        first, second = (make_run(tmp_path / name, answers={"bf16": scored(1)}) for name in ("a", "b"))
        check_comparable(load_run(first), load_run(second))

    def test_other_samples(self, tmp_path: Path) -> None:
        first = make_run(tmp_path / "a", answers={"bf16": scored(1)})
        second = make_run(tmp_path / "b", samples=make_samples(haystacks=29), answers={"bf16": scored(1)})
        with pytest.raises(IncomparableError, match="20 samples were asked in only one of them") as caught:
            check_comparable(load_run(first), load_run(second))
        assert caught.value.exit_code == 4

    def test_another_task(self, tmp_path: Path) -> None:
        first = make_run(tmp_path / "a", answers={"bf16": scored(1)})
        second = make_run(tmp_path / "b", samples=make_samples(tasks={"qa": "qa"}), answers={"bf16": scored(1)})
        with pytest.raises(IncomparableError, match="only one of them asked task 'niah_multikey'"):
            check_comparable(load_run(first), load_run(second))

    def test_another_prompt(self, tmp_path: Path) -> None:
        samples = make_samples()
        changed = [samples[0].model_copy(update={"prompt_sha256": "0" * 64}), *samples[1:]]
        first = make_run(tmp_path / "a", samples=samples, answers={"bf16": scored(1)})
        second = make_run(tmp_path / "b", samples=changed, answers={"bf16": scored(1)})
        with pytest.raises(IncomparableError, match="different prompts"):
            check_comparable(load_run(first), load_run(second))

    def test_another_temperature(self, tmp_path: Path) -> None:
        first = make_run(tmp_path / "a", answers={"bf16": scored(1)})
        second = make_run(tmp_path / "b", answers={"bf16": scored(1)}, manifest={"sampling": {"temperature": 1.0}})
        with pytest.raises(IncomparableError, match=r"sampling setting 'temperature' differs: 0\.0 and 1\.0"):
            check_comparable(load_run(first), load_run(second))


@pytest.mark.parametrize("changed", ["task/mine", "task/mine/files"])
def test_runs_scored_by_different_scorers_are_not_compared(tmp_path: Path, changed: str) -> None:
    samples = make_samples(tasks={"mine": "own"}, haystacks=2, questions=2)
    answers = {"bf16": scored(0.9), "fp8": scored(0.9)}
    inputs = {"task/mine": "0", "task/mine/files": "1", "task/other": "2"}
    for name, its in (("a", inputs), ("b", inputs | {"task/other": "3"}), ("c", inputs | {changed: "4"})):
        make_run(tmp_path / name, samples=samples, answers=answers, manifest={"inputs": its})
    blessed = tmp_path / "c.json"
    bless(load_run(tmp_path / "c"), Policy(), blessed)
    assert compare(str(tmp_path / "a"), str(tmp_path / "b")).pairs
    assert compare(f"{tmp_path / 'c'}:bf16", f"{tmp_path / 'c'}:fp8").pairs
    for other in (tmp_path / "c", f"{tmp_path / 'c'}:fp8", blessed):
        with pytest.raises(IncomparableError, match=rf"a task or its scorer differs \({changed}\)"):
            compare(str(tmp_path / "a"), str(other))
