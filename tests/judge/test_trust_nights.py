"""Servers that break, and servers that do not: the fast part of `scripts/bench trust`."""

from __future__ import annotations

from types import ModuleType

import pytest
from support.benchmarks import benchmark


@pytest.fixture(scope="module")
def trust() -> ModuleType:
    return benchmark("trust")


@pytest.mark.parametrize("interleaved", [True, False])
def test_steady_servers_raise_no_alarm(trust: ModuleType, interleaved: bool) -> None:
    result = trust.problems(trust.Night(cells=3, interleaved=interleaved), 6, seed=31)
    assert result.get("answers_change of bf16", 0) == result.get("answers_change of fp8", 0) == 0


@pytest.mark.parametrize(
    ("variant", "since", "until", "damage"),
    [("fp8", 2 / 3, 1.0, 1.0), ("fp8", 0.5, 1.0, 0.5), ("fp8", 0.3, 0.6, 1.0), ("bf16", 0.15, 1.0, 1.0)],
)
def test_a_server_that_breaks_is_found_and_nothing_passes(
    trust: ModuleType, variant: str, since: float, until: float, damage: float
) -> None:
    night = trust.Night(cells=3, broken=variant, since=since, until=until, damage=damage)
    result = trust.problems(night, 3, seed=32)
    assert result[f"answers_change of {variant}"] == 1
    assert result["pass"] == 0
    assert result["median_error_questions"] <= 10


def test_a_second_run_that_is_all_wrong_lets_nothing_pass(trust: ModuleType) -> None:
    result = trust.problems(trust.Night(cells=3, broken="bf16-aa", since=0.0), 3, seed=33)
    assert result["unequal_control of bf16"] == 1
    assert result["pass"] == 0
