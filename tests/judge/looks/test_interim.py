"""What a look finds, on runs in which the look is the last that was taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.judge.looks.interim import findings_at_look
from kveval.judge.run_data import load_run
from kveval.run.looks import LengthFinding
from kveval.run.records import SampleRow

PLANNED = [{"number": number, "error_share": share} for number, share in ((1, 0.0625), (2, 0.1875), (3, 0.65))]
Score = Callable[[SampleRow], float]


def samples(tasks: dict[str, str] | None = None) -> list[SampleRow]:
    rows = make_samples(tasks=tasks, haystacks=40, questions=2)
    return [
        row.model_copy(update={"first_look": 1 if number < 10 else 2 if number < 20 else 3})
        for row in rows
        for number in [int(row.haystack_id.rsplit("-", 1)[1])]
    ]


def found(
    folder: Path,
    score: Score,
    *,
    look: int = 1,
    config: dict[str, Any] | None = None,
    tasks: dict[str, str] | None = None,
) -> dict[int, LengthFinding]:
    """Judges fp8 by expected scores at a look that covers both lengths. The baseline's score is 0.5."""
    taken = [
        {**planned, "at": "2026-01-02T03:04:05Z", "questions": 1, "context_lengths": [2048, 8192]}
        for planned in PLANNED[:look]
    ]

    def answered(row: SampleRow, rng: Any) -> Any:
        return scored(0.9)(row, rng) if row.first_look <= look else None

    path = make_run(
        folder / "run",
        samples=samples(tasks),
        answers={"bf16": scored(0.9), "fp8": answered},
        expected={"bf16": lambda _: 0.5, "fp8": score},
        variants={"fp8": {"status": "running", "looks": taken}},
        manifest={"planned_looks": PLANNED, "status": "running", "config": {"judge": config or {}}},
    )
    return findings_at_look(load_run(path), "fp8")


def at(row: SampleRow, *, loss: float, noise: float) -> float:
    """A loss with a noise that is the same for each haystack, and adds up to nothing."""
    return 0.5 - loss + noise * (-1) ** int(row.haystack_id.rsplit("-", 1)[1])


def test_each_length_stops_when_it_is_decided(tmp_path: Path) -> None:
    loss = {2048: 0.0, 8192: 0.2}
    judged = found(tmp_path, lambda row: at(row, loss=loss[row.context_length], noise=0.002))
    assert {length: (one.word, one.stop) for length, one in judged.items()} == {
        2048: ("pass", "decided"),
        8192: ("fail", "decided"),
    }
    assert judged[8192].delta == pytest.approx(-0.2)
    assert judged[8192].low is not None
    assert judged[8192].low < -0.2


def test_what_is_undecided_goes_on(tmp_path: Path) -> None:
    judged = found(tmp_path, lambda row: at(row, loss=0.0, noise=0.03))
    assert {(one.word, one.stop) for one in judged.values()} == {("undecided", None)}


def test_what_the_rest_of_the_plan_can_hardly_decide_stops_without_a_verdict(tmp_path: Path) -> None:
    judged = found(tmp_path, lambda row: at(row, loss=0.02, noise=0.3), look=2)
    assert {(one.word, one.stop) for one in judged.values()} == {("undecided", "futile")}


def test_the_last_look_is_never_futile(tmp_path: Path) -> None:
    judged = found(tmp_path, lambda row: at(row, loss=0.02, noise=0.3), look=3)
    assert {(one.word, one.stop) for one in judged.values()} == {("undecided", None)}


def test_a_collapse_stops_every_length_also_where_it_is_not_decided(tmp_path: Path) -> None:
    def gone(row: SampleRow) -> float:
        return 0.0 if row.context_length == 2048 else 0.02

    judged = found(tmp_path, gone)
    assert {one.stop for one in judged.values()} == {"collapse"}


def test_a_length_goes_on_until_families_with_their_own_margin_are_decided(tmp_path: Path) -> None:
    tasks = {"niah_multikey": "needle", "qa": "multidoc_qa"}

    def noisy_needles(row: SampleRow) -> float:
        return at(row, loss=0.0, noise=0.01 if row.family == "needle" else 0.002)

    assert {one.stop for one in found(tmp_path / "a", noisy_needles, tasks=tasks).values()} == {"decided"}
    strict = {"margins": {"needle": 0.002}, "margin": 0.03}
    judged = found(tmp_path / "b", noisy_needles, tasks=tasks, config=strict)
    assert {(one.word, one.stop) for one in judged.values()} == {("pass", None)}
