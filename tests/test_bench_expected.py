"""`scripts/bench expected` reads its figures of divergence from the run."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.benchmarks import benchmark
from support.divergences import add_divergence
from support.make_run import GOOD, make_run, make_samples

expected = benchmark("expected")


def test_divergence_has_its_figures_and_its_cost(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", samples=make_samples(haystacks=3, questions=2), answers=GOOD)
    add_divergence(run, {"same": 0.2})
    found = expected.figures(run)["divergence"]["same"]
    assert found["tokens"] == 800
    assert found["kld_mean"] > found["kld_se"] > 0
    assert found["divergence_seconds_per_1000_tokens"] == pytest.approx(5.0)
    assert found["bytes_per_token"] > 0


def test_a_variant_that_was_not_read_has_none(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", samples=make_samples(haystacks=3, questions=2), answers=GOOD)
    add_divergence(run, {})
    assert expected.figures(run)["divergence"]["same"]["kld_mean"] is None
