"""The samples a comparison is about."""

from __future__ import annotations

import pandas as pd
import pytest

from kveval.judge.comparison.scope import Scope, in_scope, scopes

SAMPLES = pd.DataFrame(
    [
        {"context_length": length, "family": family, "task": task}
        for length in (8192, 2048)
        for family, task in (("qa", "c"), ("needle", "b"), ("needle", "a"))
    ]
)


def test_every_level_is_named_in_the_order_of_length_family_and_task() -> None:
    assert [str(scope) for scope in scopes(SAMPLES)] == [
        "overall", "2,048 tokens", "8,192 tokens", "needle", "qa",
        "a at 2,048 tokens", "b at 2,048 tokens", "c at 2,048 tokens",
        "a at 8,192 tokens", "b at 8,192 tokens", "c at 8,192 tokens",
    ]  # fmt: skip


def test_levels_come_in_the_order_they_are_asked_for() -> None:
    assert [scope.level for scope in scopes(SAMPLES, "length", "overall")] == ["length", "length", "overall"]


@pytest.mark.parametrize(
    ("scope", "rows"),
    [
        (Scope("overall"), 6),
        (Scope("length", context_length=2048), 3),
        (Scope("family", family="needle"), 4),
        (Scope("cell", family="needle", task="a", context_length=8192), 1),
        (Scope("cell", family="qa", task="a", context_length=8192), 0),
    ],
)
def test_the_samples_of_a_scope(scope: Scope, rows: int) -> None:
    assert len(in_scope(SAMPLES, scope)) == rows


def test_the_cells_hold_every_sample_once() -> None:
    parts = [in_scope(SAMPLES, scope) for scope in scopes(SAMPLES, "cell")]
    assert sorted(pd.concat(parts).index) == sorted(SAMPLES.index)
