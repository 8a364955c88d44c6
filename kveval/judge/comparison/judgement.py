"""Judges every variant of a run: overall, by context length, by task family and by cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import Comparison, at_levels, compare
from kveval.judge.comparison.endpoint import KIND_WORDS, Endpoint, Kind
from kveval.judge.comparison.pairing import VariantPair, pairs_with_baseline
from kveval.judge.comparison.scope import Level, Scope, in_scope, scopes
from kveval.judge.comparison.verdict import Verdict, Word, decide, points
from kveval.judge.run_data import RunData, policy_of
from kveval.judge.statistics.hypothesis_tests import holm
from kveval.judge.trust.find import find_problems, void_of
from kveval.judge.trust.problem import Problem

# Holm corrects over the rows of one panel, which are read together. Each p-value is two-sided and only a loss can fail.
# So one panel has false fails with probability (1 - confidence) / 2 at most, and both panels with 1 - confidence.
PANELS: tuple[tuple[Level, ...], ...] = (("overall", "length"), ("family", "cell"))

_WORST_FIRST: tuple[Word, ...] = ("fail", "undecided", "pass")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the judge says about a run.

    Attributes:
        pairs, comparisons: every variant with the run's baseline, and the rows of these pairs.
        problems: what broke while the run was measured.
        blessed_pairs, against_blessed: every blessed variant with its own answers in the blessed run, and the rows.
    """

    policy: Policy
    pairs: tuple[VariantPair, ...]
    comparisons: tuple[Comparison, ...]
    problems: tuple[Problem, ...] = ()
    blessed_pairs: tuple[VariantPair, ...] = ()
    against_blessed: tuple[Comparison, ...] = ()

    def of(self, variant: str, *levels: Level) -> list[Comparison]:
        """Returns the rows of `variant` at these levels, one level after the other."""
        return at_levels((row for row in self.comparisons if row.variant == variant), *levels)

    def problems_of(self, *variants: str) -> list[Problem]:
        """Returns what broke in these variants, in the order of `variants`."""
        return [problem for name in variants for problem in self.problems if problem.variant == name]

    def void_of(self, comparison: Comparison) -> Problem | None:
        """Returns the problem that makes `comparison` worthless. None if it can be judged."""
        return void_of(self.problems, comparison.variant, comparison.against)


def judge_run(
    run: RunData,
    policy: Policy | None = None,
    blessed_pairs: Iterable[VariantPair] = (),
    *,
    confidence: float | None = None,
) -> Judgement:
    """Compares every variant of `run` with its baseline, and judges its candidates, by the run's own policy by default.

    Holm corrects over the run's own pairs and `blessed_pairs` together. Rows whose answers a problem makes worthless
    are undecided, whatever their numbers say.

    Args:
        confidence: of every interval and verdict. None takes that of the policy.

    Raises:
        ConfigError: the policy in the run's configuration is not allowed.
    """
    policy = policy or policy_of(run.manifest)
    pairs, blessed_pairs = tuple(pairs_with_baseline(run)), tuple(blessed_pairs)
    confidence = policy.confidence if confidence is None else confidence
    rows = _compare([*pairs, *blessed_pairs], policy, confidence)
    blessed = {pair.against for pair in blessed_pairs}
    own = [(row, p) for _, row, p in rows if row.against not in blessed]
    problems = find_problems(run, own, policy)
    comparisons = [
        _judged(pair, row, policy, confidence, p, void_of(problems, pair.variant, pair.against))
        for pair, row, p in rows
    ]
    return Judgement(
        policy,
        pairs,
        tuple(row for row in comparisons if row.against not in blessed),
        problems,
        blessed_pairs,
        tuple(row for row in comparisons if row.against in blessed),
    )


def judge_pairs(pairs: Iterable[tuple[VariantPair, Problem | None]], policy: Policy) -> list[Comparison]:
    """Compares each pair at every level. Pairs that are judged get verdicts, with Holm over each panel of them.

    A pair whose answers a problem makes worthless stands beside it, and its rows are undecided.
    """
    pairs = list(pairs)
    voids = {id(pair): problem for pair, problem in pairs}
    rows = _compare([pair for pair, _ in pairs], policy, policy.confidence)
    return [_judged(pair, row, policy, policy.confidence, p, voids[id(pair)]) for pair, row, p in rows]


def _compare(
    pairs: Iterable[VariantPair], policy: Policy, confidence: float
) -> list[tuple[VariantPair, Comparison, dict[Kind, float]]]:
    """Returns every row without its verdict, and its p-values after Holm. A row that gets no verdict has none."""
    rows = [
        (pair, compare(in_scope(pair.table, scope), pair.variant, pair.against, scope, policy=policy,
                          confidence=confidence, control=pair.control))
        for pair in pairs
        for scope in scopes(pair.table)
    ]  # fmt: skip
    adjusted = _adjusted([(pair, row) for pair, row in rows if pair.judged], policy)
    return [
        (pair, row, {kind: p for (of, scope, kind), p in adjusted.items() if (of, scope) == (id(pair), row.scope)})
        for pair, row in rows
    ]


PValues = dict[tuple[int, Scope, Kind], float]
"""Corrected p-values by pair (its id), scope and kind of score."""


def _adjusted(rows: list[tuple[VariantPair, Comparison]], policy: Policy) -> PValues:
    cells = {key: _cells_by_scope(pair.table) for key, pair in {id(c): c for c, _ in rows}.items()}
    adjusted: PValues = {}
    for panel in PANELS:
        # Scopes with the same cells are one hypothesis and count once. With one length only, "overall" is that length.
        hypotheses: dict[tuple[int, frozenset[tuple[str, int]], Kind], float] = {}
        keys = {}
        for pair, comparison in rows:
            for one in comparison.evidence(policy):
                if comparison.scope.level in panel and one.difference.p is not None:
                    hypothesis = (id(pair), cells[id(pair)][comparison.scope], one.kind)
                    hypotheses[hypothesis] = one.difference.p
                    keys[id(pair), comparison.scope, one.kind] = hypothesis
        by_hypothesis = dict(zip(hypotheses, holm(list(hypotheses.values())), strict=True))
        adjusted |= {key: by_hypothesis[hypothesis] for key, hypothesis in keys.items()}
    return adjusted


def _judged(
    pair: VariantPair,
    comparison: Comparison,
    policy: Policy,
    confidence: float,
    p_holm: Mapping[Kind, float],
    void: Problem | None,
) -> Comparison:
    """Returns the comparison with its verdict: the worst of those that rest on one kind of score each."""
    if not pair.judged:
        return comparison
    if void:
        return replace(comparison, verdict=Verdict("undecided", void.message, policy.margin))
    if comparison.unscored and not comparison.asked:
        return replace(
            comparison, verdict=Verdict("undecided", pair.obstacle or _not_scored(comparison), policy.margin)
        )
    verdicts = [
        (one, _verdict(pair, one, policy, confidence, p_holm.get(one.kind))) for one in comparison.evidence(policy)
    ]
    shown, verdict = min(verdicts, key=lambda found: (_WORST_FIRST.index(found[1].word), not found[1].is_doubted))
    contradiction = _contradiction(comparison, shown, verdict, policy)
    if contradiction:
        verdict = replace(verdict, word="undecided", reason=contradiction, more_samples=None, is_doubted=True)
    elif shown.kind != "greedy":
        verdict = replace(verdict, reason=f"by the {KIND_WORDS[shown.kind]}, {verdict.reason}")
    return replace(comparison, shown=shown, verdict=verdict)


def _verdict(pair: VariantPair, one: Endpoint, policy: Policy, confidence: float, p_holm: float | None) -> Verdict:
    cannot_show = one.difference.n > 0 and one.sensitive.n == 0
    return decide(
        one.difference,
        margin=policy.over(one.families, one.kind).margin,
        confidence=confidence,
        p_holm=p_holm,
        asked=one.asked,
        sensitive=one.sensitive,
        insensitive=f"cannot show a loss: {one.insensitive_cells[0]}" if cannot_show else None,
        obstacle=pair.obstacle,
        may_gain=pair.may_gain,
    )


def _contradiction(comparison: Comparison, shown: Endpoint, verdict: Verdict, policy: Policy) -> str | None:
    """Returns why the greedy answers contradict a verdict by the expected score. None if they do not.

    They contradict a pass if they show a loss beyond the margin, and a fail if they show a gain: each with the
    confidence of the policy, without a correction for many rows, because a doubt needs less proof than a verdict.
    """
    if shown.kind == "greedy" or verdict.word == "undecided":
        return None
    low, high = comparison.greedy.difference.low, comparison.greedy.difference.high
    margin = policy.over(comparison.greedy.families).margin
    if verdict.word == "pass" and high is not None and high < -margin:
        return f"the expected score passes, but greedy answers lose {points(-high)} points or more"
    if verdict.word == "fail" and low is not None and low > 0:
        return f"the expected score fails, but greedy answers gain {points(low)} points or more"
    return None


def _not_scored(comparison: Comparison) -> str:
    same = "" if comparison.identical is None else f"; {comparison.identical:.0%} of the outputs are the same"
    return f"not scored: the {comparison.unscored} questions have no right answer{same}"


def _cells_by_scope(samples: pd.DataFrame) -> dict[Scope, frozenset[tuple[str, int]]]:
    return {
        scope: frozenset(zip(rows["task"], rows["context_length"], strict=True))
        for scope in scopes(samples)
        for rows in [in_scope(samples, scope)]
    }
