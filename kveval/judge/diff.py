"""Candidates against the baseline, paired by sample, at every level a reader asks about; and against an earlier run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pandas as pd

from kveval.judge.comparison import Comparison, compare
from kveval.judge.pairing import Group, Level, Side, groups, members, pair
from kveval.judge.policy import policy_of
from kveval.judge.run_data import Run
from kveval.judge.stats import holm
from kveval.judge.verdicts import Policy, Verdict, decide
from kveval.run.manifest import VariantRun

# Holm corrects over the rows of one panel: what is read together. Each p-value is two-sided and only a loss can fail,
# so a panel has false fails in at most half of 1 - confidence, and both panels together in at most all of it.
PANELS: tuple[tuple[Level, ...], ...] = (("overall", "length"), ("family", "cell"))


@dataclass(frozen=True, slots=True)
class Contest:
    """Two sides to compare at every level.

    Attributes:
        variant: the candidate's side.
        against: names the baseline's side.
        table: as `pair` makes it.
        control: name of the side "control" in `table`.
        judged: whether it gets verdicts; controls do not.
        obstacle: why it cannot pass whatever the numbers say.
    """

    variant: str
    against: str
    table: pd.DataFrame
    control: str | None = None
    judged: bool = True
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """
    Attributes:
        comparisons: of every variant with the run's baseline.
        over_time: of the run's variants with themselves in an earlier run; empty unless one was given.
    """

    policy: Policy
    comparisons: tuple[Comparison, ...]
    over_time: tuple[Comparison, ...] = ()

    def of(self, variant: str, level: Level) -> list[Comparison]:
        return [c for c in self.comparisons if c.variant == variant and c.group.level == level]


def judge_run(run: Run, policy: Policy | None = None, over_time: Iterable[Contest] = ()) -> Judgement:
    """Compares every variant of `run` with its baseline; judges its candidates.

    Args:
        policy: the run's own by default.
        over_time: contests with an earlier run, read together with the run's own: Holm corrects over both.

    Raises:
        ConfigError: the policy the run was configured with is not allowed.
    """
    policy = policy or policy_of(run.manifest)
    over_time = list(over_time)
    comparisons = judge_contests([*contests(run), *over_time], policy)
    earlier = {contest.against for contest in over_time}
    return Judgement(
        policy,
        tuple(comparison for comparison in comparisons if comparison.against not in earlier),
        tuple(comparison for comparison in comparisons if comparison.against in earlier),
    )


def contests(run: Run) -> list[Contest]:
    """Every variant of `run` against its baseline."""
    baseline = run.manifest.variants[run.manifest.baseline]
    found = []
    for variant in run.manifest.variants.values():
        if variant.name == baseline.name:
            continue
        control = run.variant("control", variant.name)
        found.append(
            Contest(
                variant.name, baseline.name, pair_variant(run, variant), control.name if control else None,
                judged=variant.role == "candidate", obstacle=obstacle(variant) or obstacle(baseline),
            )
        )  # fmt: skip
    return found


def pair_variant(run: Run, variant: VariantRun) -> pd.DataFrame:
    """`pair` of the baseline, `variant`, its control and the baseline's A/A run, those that exist.

    An A/A run is paired over the samples it was asked.
    """
    sides: dict[Side, pd.DataFrame] = {
        "baseline": run.records[run.manifest.baseline],
        "candidate": run.records[variant.name],
    }
    samples = run.samples
    if variant.role == "aa" and run.manifest.aa_sample_ids is not None:
        samples = samples.loc[samples.index.isin(run.manifest.aa_sample_ids)]
    control, aa = run.variant("control", variant.name), run.variant("aa", run.manifest.baseline)
    if control:
        sides["control"] = run.records[control.name]
    if aa:
        sides["aa"] = run.records[aa.name]
    return pair(samples, sides)


def judge_contests(contests: Iterable[Contest], policy: Policy) -> list[Comparison]:
    """Compares each contest at every level, with verdicts for those that are judged, Holm over each panel of them."""
    contests = list(contests)
    rows = [
        (contest, compare(members(contest.table, group), contest.variant, contest.against, group, policy=policy,
                          control=contest.control))
        for contest in contests
        for group in groups(contest.table)
    ]  # fmt: skip
    adjusted = _adjusted([(contest, comparison) for contest, comparison in rows if contest.judged])
    return [
        replace(
            comparison, verdict=_verdict(contest, comparison, policy, adjusted.get((id(contest), comparison.group)))
        )
        if contest.judged
        else comparison
        for contest, comparison in rows
    ]


def _adjusted(rows: list[tuple[Contest, Comparison]]) -> dict[tuple[int, Group], float]:
    """Adjusted p-values by contest (its id) and group."""
    cells = {key: _cells_by_group(contest.table) for key, contest in {id(c): c for c, _ in rows}.items()}
    adjusted: dict[tuple[int, Group], float] = {}
    for panel in PANELS:
        # Groups of the same cells (one length only: "overall" is that length) are one hypothesis, counted once.
        hypotheses: dict[tuple[int, frozenset[tuple[str, int]]], float] = {}
        keys = {}
        for contest, comparison in rows:
            if comparison.group.level in panel and comparison.difference.p is not None:
                hypothesis = (id(contest), cells[id(contest)][comparison.group])
                hypotheses[hypothesis] = comparison.difference.p
                keys[id(contest), comparison.group] = hypothesis
        by_hypothesis = dict(zip(hypotheses, holm(list(hypotheses.values())), strict=True))
        adjusted |= {key: by_hypothesis[hypothesis] for key, hypothesis in keys.items()}
    return adjusted


def _verdict(contest: Contest, comparison: Comparison, policy: Policy, p_holm: float | None) -> Verdict:
    if comparison.unscored and not comparison.asked:
        return Verdict("inconclusive", contest.obstacle or _not_scored(comparison), policy.margin)
    cannot_show = comparison.difference.n > 0 and comparison.sensitive.n == 0
    rows = members(contest.table, comparison.group)
    return decide(
        comparison.difference,
        policy=policy.over(rows.loc[rows["scored"], "family"]),
        p_holm=p_holm,
        asked=comparison.asked,
        sensitive=comparison.sensitive,
        insensitive=f"cannot show a loss: {comparison.insensitive_cells[0]}" if cannot_show else None,
        obstacle=contest.obstacle,
    )


def _not_scored(comparison: Comparison) -> str:
    same = "" if comparison.identical is None else f"; {comparison.identical:.0%} of the outputs are the same"
    return f"not scored: its {comparison.unscored} samples have no right answer{same}"


def obstacle(variant: VariantRun) -> str | None:
    """Why nothing of `variant` can carry a pass; None when it ran to its end."""
    if variant.status == "complete":
        return None
    done = {"planned": "not measured yet", "running": "not finished"}.get(variant.status, variant.status)
    return f"{variant.name} {done}" + (f": {variant.reason}" if variant.reason else "")


def _cells_by_group(samples: pd.DataFrame) -> dict[Group, frozenset[tuple[str, int]]]:
    return {
        group: frozenset(zip(rows["task"], rows["context_length"], strict=True))
        for group in groups(samples)
        for rows in [members(samples, group)]
    }
