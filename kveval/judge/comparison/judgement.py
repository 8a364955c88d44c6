"""Judges every variant of a run: overall, by context length, by task family and by cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from kveval.config.judge import Policy
from kveval.errors import ConfigError
from kveval.judge.comparison.comparison import Comparison, at_levels, compare
from kveval.judge.comparison.correction import PValues, Row, corrected
from kveval.judge.comparison.endpoint import KIND_WORDS, Endpoint
from kveval.judge.comparison.pairing import VariantPair, pairs_with_baseline
from kveval.judge.comparison.scope import SUMMARY_LEVELS, Level, scopes
from kveval.judge.comparison.verdict import ReasonCode, Verdict, Word, decide, points
from kveval.judge.looks.basis import basis, with_implied_passes
from kveval.judge.run_data import RunData, policy_of
from kveval.judge.trust.find import find_problems, void_of
from kveval.judge.trust.problem import Problem

_WORST_FIRST: tuple[Word, ...] = ("fail", "undecided", "pass")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the judge says about a run.

    Attributes:
        pairs, comparisons: every variant with the run's baseline, and the rows of these pairs.
        problems: what broke while the run was measured.
        run: the directory that was judged.
        blessed_pairs, against_blessed: every blessed variant with its own answers in the blessed run, and the rows.
    """

    policy: Policy
    pairs: tuple[VariantPair, ...]
    comparisons: tuple[Comparison, ...]
    run: Path
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


def judge_run(run: RunData, policy: Policy | None = None, blessed_pairs: Iterable[VariantPair] = ()) -> Judgement:
    """Compares every variant of `run` with its baseline, and judges its candidates, by the run's own policy by default.

    Holm corrects over the run's own pairs and `blessed_pairs` together. Rows whose answers a problem makes worthless
    are undecided, whatever their numbers say. A variant that was judged while it was asked rests on the looks that were
    taken (`kveval.judge.looks.basis`).

    Raises:
        ConfigError: the policy in the run's configuration is not allowed, or it only reports and blocks nothing.
    """
    policy = policy or policy_of(run.manifest)
    families = sorted(set(run.samples["family"]))
    if families and policy.advisory.issuperset(families):
        raise ConfigError(
            f"judge.tiers: every family of this run is advisory ({', '.join(families)}), so nothing could block; "
            "use blocking for at least one"
        )
    pairs, blessed_pairs = tuple(pairs_with_baseline(run)), tuple(blessed_pairs)
    rows = _compare([*pairs, *blessed_pairs], policy)
    blessed = {pair.against for pair in blessed_pairs}
    own = [(row.comparison, p.no_difference) for row, p in rows if row.pair.against not in blessed]
    problems = find_problems(run, own, policy)
    comparisons = _judge(rows, policy, lambda pair: void_of(problems, pair.variant, pair.against))
    return Judgement(
        policy,
        pairs,
        tuple(row for row in comparisons if row.against not in blessed),
        run.path,
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
    return _judge(_compare([pair for pair, _ in pairs], policy), policy, lambda pair: voids[id(pair)])


_WithP = tuple[Row, PValues]


def _compare(pairs: Iterable[VariantPair], policy: Policy) -> list[_WithP]:
    rows = []
    for pair in pairs:
        blocking = pair.without_families(policy.advisory)
        judged = [(blocking, scope) for scope in scopes(blocking.table, *SUMMARY_LEVELS)]
        judged += [(pair, scope) for scope in scopes(pair.table, "family", "cell")]
        for part, scope in judged:
            rests_on = basis(part, scope)
            comparison = compare(
                rests_on.table, pair.variant, pair.against, scope,
                policy=policy, confidence=rests_on.confidence(policy.confidence), control=pair.control,
            )  # fmt: skip
            rows.append(Row(pair, rests_on, comparison))
    return list(zip(rows, corrected(rows, policy), strict=True))


def _judge(rows: Iterable[_WithP], policy: Policy, void: Callable[[VariantPair], Problem | None]) -> list[Comparison]:
    """Returns the rows with their verdicts, in their order."""
    judged: list[Comparison] = []
    for _, of_pair in groupby(rows, key=lambda found: id(found[0].pair)):
        own = list(of_pair)
        pair = own[0][0].pair
        comparisons = [_judged(row, policy, p_values, void(pair)) for row, p_values in own]
        judged += comparisons if pair.looks is None else with_implied_passes(comparisons)
    return judged


def _judged(row: Row, policy: Policy, p_values: PValues, void: Problem | None) -> Comparison:
    """Returns the comparison with its verdict: the worst of those that rest on one kind of score each."""
    pair, comparison = row.pair, row.comparison
    if not pair.judged:
        return comparison
    if void:
        return replace(
            comparison, verdict=Verdict("undecided", "answers_not_trusted", void.message, comparison.shown.margin)
        )
    if comparison.unscored and not comparison.asked:
        code: ReasonCode = "not_complete" if row.basis.obstacle else "not_scored"
        reason = row.basis.obstacle or _not_scored(comparison)
        return replace(comparison, verdict=Verdict("undecided", code, reason, comparison.shown.margin))
    verdicts = [(one, _verdict(row, one, p_values)) for one in comparison.evidence(policy)]
    shown, verdict = min(verdicts, key=lambda found: (_WORST_FIRST.index(found[1].word), not found[1].is_doubted))
    contradiction = _contradiction(comparison, shown, verdict)
    if contradiction:
        verdict = replace(
            verdict, word="undecided", reason_code="contradicted_by_greedy", reason=contradiction, more_samples=None
        )
    elif shown.kind != "greedy":
        verdict = replace(verdict, reason=f"by the {KIND_WORDS[shown.kind]}, {verdict.reason}")
    return replace(comparison, shown=shown, verdict=verdict)


def _verdict(row: Row, one: Endpoint, p_values: PValues) -> Verdict:
    cannot_show = one.difference.n > 0 and one.sensitive.n == 0
    p_holm = p_values.within_margin.get(one.kind) if one.difference.p_beyond is not None else None
    verdict = decide(
        one.difference,
        margin=one.margin,
        confidence=row.comparison.confidence,
        # At the level of the row's own look.
        p_holm=None if p_holm is None else p_holm * row.basis.error_share,
        asked=one.asked,
        sensitive=one.sensitive,
        insensitive=f"no loss can show here: {one.insensitive_cells[0]}; use other tasks" if cannot_show else None,
        obstacle=row.basis.obstacle,
        may_gain=row.pair.may_gain,
    )
    return replace(verdict, p_holm=p_holm)


def _contradiction(comparison: Comparison, shown: Endpoint, verdict: Verdict) -> str | None:
    """Returns why the greedy answers contradict a verdict by the expected score. None if they do not.

    They contradict a pass if they show a loss beyond the margin, and a fail if they show a gain: each with the
    confidence of the policy, without a correction for many rows, because a doubt needs less proof than a verdict.
    """
    if shown.kind == "greedy" or verdict.word == "undecided":
        return None
    low, high = comparison.greedy.difference.low, comparison.greedy.difference.high
    if verdict.word == "pass" and high is not None and high < -comparison.greedy.margin:
        return f"the expected score passes, but greedy answers lose {points(-high)} points or more"
    if verdict.word == "fail" and low is not None and low > 0:
        return f"the expected score fails, but greedy answers gain {points(low)} points or more"
    return None


def _not_scored(comparison: Comparison) -> str:
    same = "" if comparison.identical is None else f"; {comparison.identical:.0%} of the outputs are the same"
    return f"not scored: the {comparison.unscored} questions have no right answer{same}"
