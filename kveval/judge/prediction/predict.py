"""Predicts what a plan can show: per context length and overall, by each kind of score that verdicts will rest on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kveval.config.judge import Policy
from kveval.judge.comparison.endpoint import Kind
from kveval.judge.prediction.prediction import PredictedRow, Prediction
from kveval.judge.prediction.variance import KnownSpread, default_spread
from kveval.judge.statistics.clusters import fewest_clusters
from kveval.judge.statistics.planned import Planned

_LOSSES = (0.01, 0.02, 0.05)
_UNLIKELY = 0.5


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """Samples of one task at one context length. `kind`: the score that they will have."""

    task: str
    family: str
    context_length: int
    kind: Kind
    samples: int
    haystacks: int


def predict(
    cells: Sequence[PlannedCell], policy: Policy, spreads: Mapping[Kind, KnownSpread], *, candidates: int
) -> Prediction:
    """Returns what the plan can show, before anything is launched.

    Args:
        spreads: what is known of each kind of score. A default stands in for the others.
        candidates: how many variants will be judged.
    """
    cells = [cell for cell in _judged(cells, policy) if cell.samples]
    lengths = sorted({cell.context_length for cell in cells})
    known = {kind: spreads.get(kind, default_spread(kind)) for kind in dict.fromkeys(cell.kind for cell in cells)}
    # With one length, overall is that length.
    rows_read_together = max(1, candidates) * (1 if len(lengths) == 1 else len(lengths) + 1) * len(known)
    rows = [
        _row(length, kind, of_kind, policy, known[kind], rows_read_together)
        for length in (*lengths, None)
        for kind in known
        if (of_kind := [cell for cell in cells if cell.kind == kind and length in (None, cell.context_length)])
    ]
    return Prediction(
        rows=rows,
        variances=[f"{kind.replace('_', ' ')}: {one.source}" for kind, one in known.items()],
        warnings=list(_warnings(rows, cells, known, policy)),
    )


def _judged(cells: Sequence[PlannedCell], policy: Policy) -> Iterator[PlannedCell]:
    for cell in cells:
        if cell.family in policy.advisory:
            continue
        yield cell
        if policy.evidence == "both" and cell.kind != "greedy":
            yield _as_greedy(cell)


def _as_greedy(cell: PlannedCell) -> PlannedCell:
    return PlannedCell(cell.task, cell.family, cell.context_length, "greedy", cell.samples, cell.haystacks)


def _row(
    length: int | None, kind: Kind, cells: Sequence[PlannedCell], policy: Policy, known: KnownSpread, rows: int
) -> PredictedRow:
    families: Counter[str] = Counter()
    for cell in cells:
        families[cell.family] += cell.samples
    # The baseline's score is not known yet, so a relative margin is left out.
    margin = policy.margin_over(families, {}, None if kind == "greedy" else kind)
    planned = _planned(cells, known, policy)
    return PredictedRow(
        context_length=length,
        evidence=kind,
        questions=sum(cell.samples for cell in cells),
        contexts=sum(cell.haystacks for cell in cells),
        margin=margin,
        can_pass=planned.can_pass(margin),
        chance_to_pass=planned.chance_to_pass(margin),
        detectable_loss=planned.detectable_loss(margin, rows=rows),
        questions_for={str(loss): planned.samples_to_pass(loss) for loss in _LOSSES},
    )


def _planned(cells: Sequence[PlannedCell], known: KnownSpread, policy: Policy) -> Planned:
    samples, haystacks = sum(cell.samples for cell in cells), sum(cell.haystacks for cell in cells)
    return Planned(haystacks, samples / haystacks, known.spread, policy.confidence)


def _warnings(
    rows: Sequence[PredictedRow], cells: Sequence[PlannedCell], known: Mapping[Kind, KnownSpread], policy: Policy
) -> Iterator[str]:
    if policy.margin_relative is not None:
        yield (
            "judge.margin_relative: the baseline's score is not known yet, so this prediction holds for the other "
            "margins only; a low score makes a pass harder"
        )
    places: dict[str, list[str]] = {}
    for row in rows:
        if row.chance_to_pass < _UNLIKELY:
            place = "overall" if row.context_length is None else f"at {row.context_length:,} tokens"
            places.setdefault(_doubt(row, cells, known, policy), []).append(place)
    for doubt, where in places.items():
        yield f"{', '.join(where)}: {doubt}"


def _doubt(row: PredictedRow, cells: Sequence[PlannedCell], known: Mapping[Kind, KnownSpread], policy: Policy) -> str:
    """Returns why a row will probably not pass, and what to change."""
    of_row = [c for c in cells if c.kind == row.evidence and row.context_length in (None, c.context_length)]
    points, size = f"{100 * row.margin:g} points", f"{row.questions:,} questions about {row.contexts:,} contexts"
    fewest = fewest_clusters(policy.confidence)
    if row.contexts < fewest:
        problem = f"cannot pass: {size}, and a pass needs at least {fewest} contexts"
    elif not row.can_pass:
        problem = f"cannot pass at a margin of {points} with {size}, whatever they answer"
    else:
        problem = (
            f"will probably end undecided at a margin of {points} with {size}: a pass has a chance of "
            f"{row.chance_to_pass:.0%} even if nothing is lost"
        )
    return f"{problem}; {_change(row, of_row, known[of_row[0].kind], policy)}"


def _change(row: PredictedRow, cells: Sequence[PlannedCell], known: KnownSpread, policy: Policy) -> str:
    needed = _planned(cells, known, policy).samples_to_pass(row.margin)
    if needed is None:
        return "use a larger margin"
    per_cell = math.ceil(needed / len(cells))
    per_haystack = max(1, math.ceil(row.questions / row.contexts))
    per_cell = math.ceil(per_cell / per_haystack) * per_haystack
    return f"use samples: {per_cell} (for each task and length, {per_haystack} to a context), or a larger margin"
