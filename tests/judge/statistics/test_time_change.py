"""A change in time is found, a hard task is none, and chance seldom is."""

from __future__ import annotations

import numpy as np
import pytest

from kveval.judge.statistics.time_change import LEVEL, find_change

LEAST = {"score": 0.05}


def answers(shares: np.ndarray, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random(len(shares)) < shares).astype(float)


def in_turn(blocks: int = 40, questions: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Cells and blocks of haystacks asked in turn, two cells."""
    block = np.repeat(np.arange(blocks), questions)
    return (block % 2).astype(np.intp), block.astype(np.intp)


@pytest.mark.parametrize(("since", "until"), [(0.5, 1.0), (0.2, 1.0), (0.4, 0.6)])
def test_the_moment_is_found(since: float, until: float) -> None:
    cells, blocks = in_turn()
    place = np.arange(len(cells)) / len(cells)
    broken = (place >= since) & (place < until)
    found = find_change({"score": answers(np.where(broken, 0.05, 0.9))}, cells, blocks, least=LEAST, seed=[1])
    assert found is not None
    assert found.p <= LEVEL
    edges = [edge for edge in (found.start, found.stop) if 0 < edge < len(cells)]
    wanted = [int(share * len(cells)) for share in (since, until) if 0 < share < 1]
    assert np.abs(np.array(edges) - np.array(wanted)).max() <= 6


def test_a_hard_cell_that_is_asked_last_is_no_change() -> None:
    blocks = np.repeat(np.arange(40), 5).astype(np.intp)
    cells = (blocks >= 20).astype(np.intp)
    scores = answers(np.where(cells == 1, 0.2, 0.95))
    assert find_change({"score": scores}, cells, blocks, least=LEAST, seed=[1]) is None


def test_equal_answers_are_no_change() -> None:
    cells, blocks = in_turn()
    assert find_change({"score": np.ones(len(cells))}, cells, blocks, least=LEAST, seed=[1]) is None


def test_one_haystack_shows_no_change() -> None:
    nothing = np.zeros(20, dtype=np.intp)
    assert find_change({"score": answers(np.full(20, 0.5))}, nothing, nothing, least=LEAST, seed=[1]) is None


def test_a_change_too_small_to_matter_is_none() -> None:
    cells, blocks = in_turn()
    values = 0.9 + 0.01 * (np.arange(len(cells)) > 100)
    assert find_change({"score": values}, cells, blocks, least=LEAST, seed=[1]) is None


def test_values_that_are_missing_are_left_out() -> None:
    cells, blocks = in_turn()
    scores = answers(np.where(np.arange(len(cells)) < 100, 0.9, 0.05))
    scores[::3] = np.nan
    assert find_change({"score": scores}, cells, blocks, least=LEAST, seed=[1]) is not None


def test_the_same_run_is_judged_the_same_way() -> None:
    cells, blocks = in_turn()
    series = {"score": answers(np.where(np.arange(len(cells)) < 100, 0.9, 0.3))}
    first, second = (find_change(series, cells, blocks, least=LEAST, seed=[3]) for _ in range(2))
    assert first == second


def test_chance_is_seldom_taken_for_a_change() -> None:
    """`scripts/bench trust` measures the level; here at most 1 of 200 where 0.2 are expected."""
    cells, blocks = in_turn(blocks=24)
    rng = np.random.default_rng(5)
    found = 0
    for number in range(200):
        haystack = rng.normal(size=24)[blocks] * 0.7 + rng.normal(size=len(blocks)) * 0.7
        series = {"score": (haystack < 0.5).astype(float)}
        found += find_change(series, cells, blocks, least={"score": 0.0}, seed=[number]) is not None
    assert found <= 1
