"""What a look finds at every context length that is still asked, and where no more questions are worth asking."""

from __future__ import annotations

from collections.abc import Sequence

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.comparison.scope import in_scope
from kveval.judge.looks.futility import LEAST_CHANCE, chance_to_decide
from kveval.judge.run_data import RunData
from kveval.run.looks import LengthFinding, Look, StopCause

# A candidate whose score is at most this share of the baseline's has lost what the cache should keep.
_COLLAPSED_SHARE = 0.1


def findings_at_look(run: RunData, variant: str) -> dict[int, LengthFinding]:
    """Judges `variant` at the last of its looks, as every later command will judge it.

    Returns:
        One finding for each context length that the look covers. A length stops if it is decided, if the rest of the
        plan hardly can decide it, or if the candidate has collapsed.
    """
    look = run.manifest.variants[variant].looks[-1]
    judgement = judge_run(run)
    rows = [row for row in judgement.of(variant, "length") if row.scope.context_length in look.context_lengths]
    collapsed = _has_collapsed(judgement.of(variant, "overall")[0])
    return {
        int(row.scope.context_length or 0): _finding(run, judgement, look, row, collapsed=collapsed) for row in rows
    }


def _finding(run: RunData, judgement: Judgement, look: Look, row: Comparison, *, collapsed: bool) -> LengthFinding:
    verdict = row.verdict
    if verdict is None:
        raise ValueError(f"{row.variant}: only candidates are looked at")
    cause: StopCause | None = None
    if collapsed:
        cause = "collapse"
    elif verdict.word != "undecided":
        cause = "decided" if _families_are_decided(judgement, row) else None
    elif not verdict.is_doubted and judgement.void_of(row) is None and _is_futile(run, judgement.policy, look, row):
        cause = "futile"
    return LengthFinding(
        word=verdict.word,
        delta=row.difference.delta,
        low=row.difference.low,
        high=row.difference.high,
        stop=cause,
        reason=verdict.reason,
    )


def _has_collapsed(overall: Comparison) -> bool:
    if overall.verdict is None or overall.verdict.word != "fail":
        return False
    baseline, candidate = overall.baseline_score.mean, overall.candidate_score.mean
    return baseline is not None and candidate is not None and candidate <= _COLLAPSED_SHARE * baseline


def _families_are_decided(judgement: Judgement, row: Comparison) -> bool:
    """Returns whether every family with its own margin is decided at this length: a pass needs theirs, too."""
    own = judgement.policy.margins.keys() - judgement.policy.advisory
    families = [one for one in judgement.of(row.variant, "family") if one.scope.family in own]
    cells = [one for one in judgement.of(row.variant, "cell") if one.scope.context_length == row.scope.context_length]
    for family in families:
        of_length = [cell for cell in cells if cell.scope.family == family.scope.family]
        if not _are_decided([family]) and not _are_decided(of_length):
            return False
    return True


def _are_decided(rows: Sequence[Comparison]) -> bool:
    return all(row.verdict is not None and row.verdict.word != "undecided" for row in rows)


def _is_futile(run: RunData, policy: Policy, look: Look, row: Comparison) -> bool:
    last = run.manifest.planned_looks[-1]
    difference = row.difference
    planned = len(in_scope(run.samples, row.scope, advisory=policy.advisory))
    share = row.asked / planned
    if look.number >= last.number or share >= 1 or difference.delta is None or difference.se is None:
        return False
    chance = chance_to_decide(
        difference.delta,
        difference.se,
        difference.clusters,
        share=share,
        margin=row.shown.margin,
        last_confidence=1 - (1 - policy.confidence) * last.error_share,
    )
    return chance < LEAST_CHANCE
