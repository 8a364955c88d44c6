"""Judges whether answers of an earlier run can stand in for answers of now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import fisher_exact, mannwhitneyu

from kveval.errors import KvevalError
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.comparison.pairing import forced_texts
from kveval.judge.run_data import RECORD_COLUMNS, RunData, load_ended_run
from kveval.judge.statistics.difference import paired_difference
from kveval.judge.statistics.hypothesis_tests import flips, holm
from kveval.run.records import Record
from kveval.run.reuse import Confirmation, Moved

LEVEL = 0.1
"""Below this p-value, after Holm over all tests, the answers differ by more than the A/A run's. It is ten times that of
other trust checks: a false alarm costs no verdict, only the asking of what was to be saved."""


class EarlierAnswers:
    """Judges earlier runs for a sweep. It judges each run once."""

    def __init__(self) -> None:
        self._judged: dict[Path, tuple[RunData, Mapping[str, str]]] = {}

    def why_not_trusted(self, path: Path, variant: str) -> str | None:
        """Returns why the answers of a variant in the run at `path` say nothing. None if they can be trusted."""
        try:
            return self._judge(path)[1].get(variant)
        except KvevalError as error:
            return str(error)

    def compare(self, path: Path, variant: str, again: Sequence[Record]) -> Confirmation:
        """Compares answers of now with those that `variant` gave to the same questions in the run at `path`.

        They may differ as much as that run's baseline differs from its A/A run: in right and wrong, in the output, in
        the expected score. Where the A/A run shows no difference at all, or there is none, any difference refuses.
        """
        run, _ = self._judge(path)
        moved, noise = _Pairs(run.records[variant], _frame(again)), None
        if run.aa is not None:
            noise = _Pairs(run.records[run.manifest.baseline], run.records[run.aa.name])
        return Confirmation(
            haystacks=len({record.haystack_id for record in again}),
            moved=moved.summary(),
            noise=noise.summary() if noise else None,
            refusal=_refusal(moved, noise, asked=len(again)),
        )

    def _judge(self, path: Path) -> tuple[RunData, Mapping[str, str]]:
        if path not in self._judged:
            run = load_ended_run(path)
            found: dict[str, str] = {}
            for problem in judge_run(run).problems:
                found.setdefault(problem.variant, problem.message)
            self._judged[path] = run, found
        return self._judged[path]


class _Pairs:
    """Two answers to each question that both sides answered."""

    def __init__(self, first: pd.DataFrame, second: pd.DataFrame) -> None:
        both = first.index.intersection(second.index)
        first, second = first.loc[both], second.loc[both]
        answered = (first["outcome"] != "engine_error") & (second["outcome"] != "engine_error")
        self.first, self.second = first[answered], second[answered]
        self.right = [(one["outcome"] == "correct").to_numpy(dtype=bool) for one in (self.first, self.second)]
        self.turned: NDArray[np.bool_] = self.right[0] != self.right[1]
        self.differing = (self.first["output"] != self.second["output"]).to_numpy(dtype=bool)
        self.expected = [_expected(one) for one in (self.first, self.second)]
        self.forced_alike = [_texts(self.first), _texts(self.second)]

    @property
    def shifts(self) -> NDArray[np.float64]:
        """Returns the differences of the expected scores, where both sides have one."""
        shifts: NDArray[np.float64] = self.expected[1] - self.expected[0]
        return np.array(shifts[~np.isnan(shifts)])

    def summary(self) -> Moved:
        shifts = np.abs(self.shifts)
        return Moved(
            questions=len(self.turned),
            turned=int(self.turned.sum()),
            differing=int(self.differing.sum()),
            expected=len(shifts),
            expected_moved=float(shifts.mean()) if len(shifts) else None,
        )


def _refusal(moved: _Pairs, noise: _Pairs | None, *, asked: int) -> str | None:
    count = len(moved.turned)
    if not count or count < asked:
        return f"{asked - count} of {asked} questions asked again have no answer"
    if moved.forced_alike[0] != moved.forced_alike[1]:
        return "other texts were forced, or at another temperature, so expected scores cannot be compared"
    facts = {
        "turned right or wrong": (moved.turned, noise.turned if noise else None),
        "have another output": (moved.differing, noise.differing if noise else None),
        "have another expected score": (moved.shifts != 0, noise.shifts != 0 if noise else None),
    }
    for words, (now, then) in facts.items():
        if now.any() and (then is None or not then.any()):
            against = "there was no A/A run to compare with" if then is None else f"none of {len(then)} in the A/A run"
            return f"{int(now.sum())} of {len(now)} questions asked again {words} ({against})"
    tests = list(_tests(moved, noise)) if noise else []
    for (words, _), p in zip(tests, holm([p for _, p in tests]), strict=True):
        if p < LEVEL:
            return f"{words} (p = {p:.2g} against the A/A run)"
    return None


def _tests(moved: _Pairs, noise: _Pairs) -> Iterator[tuple[str, float]]:
    """Yields what each test would show, and its p-value: more differences than in the A/A run, or in one direction."""
    count = len(moved.turned)
    for words, now, then in (
        ("turned right or wrong", moved.turned, noise.turned),
        ("have another output", moved.differing, noise.differing),
    ):
        table = [[int(one.sum()), int((~one).sum())] for one in (now, then)]
        yield f"{int(now.sum())} of {count} questions asked again {words}", float(fisher_exact(table, "greater").pvalue)
    turns = flips(*moved.right)
    yield f"{turns.lost} of {count} questions asked again turned wrong, {turns.gained} right", turns.p
    shifts, usual = np.abs(moved.shifts), np.abs(noise.shifts)
    if not (len(shifts) and len(usual)):
        return
    farther = f"expected scores moved by {100 * shifts.mean():.2g} points on average, and by {100 * usual.mean():.2g}"
    yield f"{farther} in the A/A run", float(mannwhitneyu(shifts, usual, alternative="greater").pvalue)
    known = ~np.isnan(moved.expected[0]) & ~np.isnan(moved.expected[1])
    before, now = (scores[known] for scores in moved.expected)
    # By question and not by haystack: a doubt needs less proof than a verdict.
    found = paired_difference(before, now, np.arange(len(now)), rare=False)
    if found.p is not None:
        yield f"the expected score moved by {100 * float(now.mean() - before.mean()):+.2g} points", found.p


def _frame(records: Sequence[Record]) -> pd.DataFrame:
    rows = [one.model_dump() | {"arrived_at_once": one.arrived_at_once} for one in records]
    columns = list(RECORD_COLUMNS)
    return pd.DataFrame([[row[key] for key in columns] for row in rows], columns=columns, dtype=object).set_index(
        "sample_id"
    )


def _expected(records: pd.DataFrame) -> NDArray[np.float64]:
    scores = [one["score"] if isinstance(one, Mapping) else np.nan for one in records["expected"]]
    return np.array(scores, dtype=np.float64)


def _texts(records: pd.DataFrame) -> list[tuple[str, float, str] | None]:
    return [
        (str(one["unit"]), float(one["temperature"]), forced_texts(one)) if isinstance(one, Mapping) else None
        for one in records["expected"]
    ]
