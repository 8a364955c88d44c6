"""Candidates against the baseline, paired by sample, at every level a reader asks about."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from kveval.judge.pairing import Group, Level, Side, answered_by, groups, members, pair
from kveval.judge.rundata import Run
from kveval.judge.stats import Difference, Flips, Score, flips, holm, mean_score, paired_difference
from kveval.judge.verdicts import Policy, Verdict, decide, points
from kveval.records import OUTCOMES, VariantRun

# Holm corrects over the rows of one panel: what is read together. Each p-value is two-sided and only a loss can fail,
# so a panel has false fails in at most half of 1 - confidence, and both panels together in at most all of it.
PANELS: tuple[tuple[Level, ...], ...] = (("overall", "length"), ("family", "cell"))


@dataclass(frozen=True, slots=True)
class Noise:
    """The baseline against a second run of itself, over the samples the second run covers.

    Attributes:
        n: samples that baseline, second run and candidate answered.
        aa, candidate: flips against the baseline.
        aa_identical, candidate_identical: share of outputs equal to the baseline's, character by character.
    """

    n: int
    aa: Flips
    candidate: Flips
    aa_identical: float
    candidate_identical: float


@dataclass(frozen=True, slots=True)
class Attribution:
    """A loss divided by the emulated twin: format (baseline to twin) plus kernel (twin to candidate).

    All three over the samples that all of them answered, so that the parts add up.
    """

    twin: str
    total: Difference
    format: Difference
    kernel: Difference


@dataclass(frozen=True, slots=True)
class Comparison:
    """One variant against the baseline over one group of samples.

    Samples that one side did not answer (an engine error, or no record) are in `asked` and in `outcomes` and not in
    scores, differences and flips: an outage is not a loss of quality. They count against a pass instead.

    Attributes:
        asked: samples of the group; ``difference.n`` of them were answered by both sides.
        baseline_score, candidate_score: over the samples both answered.
        sensitive: the difference over the cells that can show a loss.
        insensitive_cells: the others, "task at N tokens: why".
        identical: share of outputs equal to the baseline's, character by character; None without samples.
        outcomes: by side ("baseline", "candidate"), count by outcome, "missing" for samples without a record.
        noise: None without an A/A run that covers the group.
        attribution: None without an emulated twin.
        verdict: None for twins and A/A runs, which are controls.
    """

    variant: str
    group: Group
    asked: int
    baseline_score: Score
    candidate_score: Score
    difference: Difference
    sensitive: Difference
    insensitive_cells: tuple[str, ...]
    flips: Flips
    identical: float | None
    outcomes: dict[str, dict[str, int]]
    noise: Noise | None
    attribution: Attribution | None
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    policy: Policy
    comparisons: tuple[Comparison, ...]

    def of(self, variant: str, level: Level) -> list[Comparison]:
        return [c for c in self.comparisons if c.variant == variant and c.group.level == level]


def judge_run(run: Run, policy: Policy | None = None) -> Judgement:
    """Compares every variant of `run` with its baseline; judges its candidates."""
    policy = policy or Policy()
    baseline = run.manifest.baseline
    others = [v for v in run.manifest.variants.values() if v.name != baseline]
    comparisons: list[Comparison] = []
    for variant in others:
        twin = run.variant("twin", variant.name)
        table = pair_variant(run, variant)
        comparisons += [
            compare(members(table, group), variant.name, group, policy=policy, twin=twin.name if twin else None)
            for group in groups(table)
        ]
    judged = _with_verdicts(run, comparisons, policy)
    return Judgement(policy, tuple(judged))


def pair_variant(run: Run, variant: VariantRun) -> pd.DataFrame:
    """`pair` of the baseline, `variant`, its twin and the baseline's A/A run, those that exist.

    An A/A run is paired over the samples it was asked.
    """
    sides: dict[Side, pd.DataFrame] = {
        "baseline": run.records[run.manifest.baseline],
        "candidate": run.records[variant.name],
    }
    samples = run.samples
    if variant.role == "aa" and run.manifest.aa_sample_ids is not None:
        samples = samples.loc[samples.index.isin(run.manifest.aa_sample_ids)]
    twin, aa = run.variant("twin", variant.name), run.variant("aa", run.manifest.baseline)
    if twin:
        sides["twin"] = run.records[twin.name]
    if aa:
        sides["aa"] = run.records[aa.name]
    return pair(samples, sides)


def compare(table: pd.DataFrame, variant: str, group: Group, *, policy: Policy, twin: str | None = None) -> Comparison:
    """Compares the sides of `table`, as `pair` made it, over all of its rows; without a verdict yet."""
    pairs = answered_by(table, "baseline", "candidate")
    insensitive, keep = [], pd.Series(True, index=pairs.index)
    for _, cell in pairs.groupby(["task", "context_length"]):
        why = _insensitive(cell["baseline_score"].mean(), cell["candidate_score"].mean(), policy)
        if why:
            place = Group("cell", task=cell["task"].iloc[0], context_length=int(cell["context_length"].iloc[0]))
            insensitive.append(f"{place}: {why}")
            keep[cell.index] = False
    return Comparison(
        variant=variant,
        group=group,
        asked=len(table),
        baseline_score=_score(pairs, "baseline", policy),
        candidate_score=_score(pairs, "candidate", policy),
        difference=_difference(pairs, "baseline", "candidate", policy),
        sensitive=_difference(pairs[keep], "baseline", "candidate", policy),
        insensitive_cells=tuple(insensitive),
        flips=_flips(pairs, "candidate"),
        identical=float(pairs["candidate_identical"].mean()) if len(pairs) else None,
        outcomes={side: _outcomes(table[f"{side}_outcome"]) for side in ("baseline", "candidate")},
        noise=_noise(table),
        attribution=_attribution(table, twin, policy),
    )


def _insensitive(baseline: float, candidate: float, policy: Policy) -> str | None:
    """Why a cell cannot show a loss. A ceiling that the candidate has left does show one."""
    if baseline <= policy.floor:
        return f"the baseline is at the floor ({points(baseline)})"
    if baseline >= policy.ceiling and candidate >= policy.ceiling:
        return f"the baseline is at the ceiling ({points(baseline)})"
    return None


def _score(pairs: pd.DataFrame, side: Side, policy: Policy) -> Score:
    return mean_score(pairs[f"{side}_score"], pairs["haystack_id"], confidence=policy.confidence)


def _difference(pairs: pd.DataFrame, first: Side, second: Side, policy: Policy) -> Difference:
    return paired_difference(
        pairs[f"{first}_score"], pairs[f"{second}_score"], pairs["haystack_id"], confidence=policy.confidence
    )


def _flips(pairs: pd.DataFrame, side: Side) -> Flips:
    return flips(pairs["baseline_correct"], pairs[f"{side}_correct"])


def _outcomes(outcomes: pd.Series) -> dict[str, int]:
    counts = outcomes.value_counts()
    return {outcome: int(counts.get(outcome, 0)) for outcome in (*OUTCOMES, "missing")}


def _noise(table: pd.DataFrame) -> Noise | None:
    if "aa_answered" not in table:
        return None
    covered = answered_by(table, "baseline", "candidate", "aa")
    if covered.empty:
        return None
    return Noise(
        n=len(covered),
        aa=_flips(covered, "aa"),
        candidate=_flips(covered, "candidate"),
        aa_identical=float(covered["aa_identical"].mean()),
        candidate_identical=float(covered["candidate_identical"].mean()),
    )


def _attribution(table: pd.DataFrame, twin: str | None, policy: Policy) -> Attribution | None:
    if twin is None:
        return None
    pairs = answered_by(table, "baseline", "candidate", "twin")
    return Attribution(
        twin=twin,
        total=_difference(pairs, "baseline", "candidate", policy),
        format=_difference(pairs, "baseline", "twin", policy),
        kernel=_difference(pairs, "twin", "candidate", policy),
    )


def _with_verdicts(run: Run, comparisons: list[Comparison], policy: Policy) -> list[Comparison]:
    """Adds verdicts to the comparisons of candidates, with Holm over each panel."""
    adjusted: dict[tuple[str, Group], float] = {}
    candidates = [c for c in comparisons if run.manifest.variants[c.variant].role == "candidate"]
    cells = _cells_by_group(run.samples)
    for panel in PANELS:
        # Groups of the same cells (one length only: "overall" is that length) are one hypothesis, counted once.
        hypotheses = {
            (c.variant, cells[c.group]): c.difference.p
            for c in candidates
            if c.group.level in panel and c.difference.p is not None
        }
        by_hypothesis = dict(zip(hypotheses, holm([p for p in hypotheses.values() if p is not None]), strict=True))
        adjusted |= {
            (c.variant, c.group): by_hypothesis[c.variant, cells[c.group]]
            for c in candidates
            if (c.variant, cells[c.group]) in by_hypothesis and c.group.level in panel
        }
    baseline = run.manifest.variants[run.manifest.baseline]
    judged = []
    for comparison in comparisons:
        variant = run.manifest.variants[comparison.variant]
        if variant.role == "candidate":
            cannot_show = comparison.difference.n > 0 and comparison.sensitive.n == 0
            verdict = decide(
                comparison.difference,
                policy=policy,
                p_holm=adjusted.get((comparison.variant, comparison.group)),
                asked=comparison.asked,
                sensitive=comparison.sensitive,
                insensitive=f"cannot show a loss: {comparison.insensitive_cells[0]}" if cannot_show else None,
                obstacle=obstacle(variant) or obstacle(baseline),
            )
            comparison = replace(comparison, verdict=verdict)
        judged.append(comparison)
    return judged


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
