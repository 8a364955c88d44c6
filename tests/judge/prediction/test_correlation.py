"""How alike the questions of a haystack are comes from earlier runs of the same model, weighed with a default."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.judgement import losing
from support.make_run import make_run, make_samples, scored

from kveval.judge.prediction.correlation import earlier_correlation
from kveval.judge.statistics.clusters import intra_cluster_correlation

SAME = {"inputs": {"model/config.json": "abc"}}


def test_the_correlation_of_whole_haystacks_is_1_and_that_of_equal_ones_is_below_0() -> None:
    clusters = np.repeat(np.arange(6), 4)
    strata = np.zeros(24, dtype=np.intp)
    whole = np.repeat([1.0, 0, 0, 1, 0, 1], 4)
    assert intra_cluster_correlation(whole, clusters, strata) == pytest.approx(1.0)
    assert intra_cluster_correlation(np.tile([1.0, 0, 0, 1], 6), clusters, strata) == pytest.approx(-1 / 3)
    assert intra_cluster_correlation(np.zeros(24), clusters, strata) is None


def test_what_earlier_runs_show_is_weighed_with_the_default(tmp_path: Path) -> None:
    rows = make_samples(haystacks=20, questions=5)
    answers = {"bf16": scored(0.9), "fp8": losing(0.2, scored(0.9))}
    make_run(tmp_path / "a", answers=answers, samples=rows, manifest=SAME)
    found = earlier_correlation(tmp_path, "abc", without=tmp_path / "new", careful=0.05)
    assert found is not None
    weighed, source = found
    contexts = len({row.haystack_id for row in rows})
    seen = float(source.split()[0])
    assert weighed == pytest.approx((seen * contexts + 0.05 * 30) / (contexts + 30), abs=1e-3)
    assert source.endswith(f"in {contexts} contexts of 1 earlier runs, weighed with a careful default of 0.05")


@pytest.mark.parametrize("model", ["other", None])
def test_runs_of_other_models_say_nothing(tmp_path: Path, model: str | None) -> None:
    make_run(tmp_path / "a", answers={"bf16": scored(0.9), "fp8": losing(0.2, scored(0.9))}, manifest=SAME)
    assert earlier_correlation(tmp_path, model, without=tmp_path / "new", careful=0.05) is None


def test_a_run_in_which_nothing_moved_says_nothing(tmp_path: Path) -> None:
    make_run(tmp_path / "a", answers={"bf16": scored(0.9), "same": scored(0.9)}, manifest=SAME)
    assert earlier_correlation(tmp_path, "abc", without=tmp_path / "new", careful=0.05) is None
