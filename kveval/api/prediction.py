"""Predicts what the plan of a sweep can show."""

from __future__ import annotations

import hashlib
from pathlib import Path

from kveval.judge.comparison.pairing import UNITS
from kveval.judge.prediction.predict import PlannedCell, predict
from kveval.judge.prediction.prediction import Prediction
from kveval.judge.prediction.variance import earlier_spreads
from kveval.measure.plan.plan import Plan
from kveval.tasks.sample import Sample


def predict_plan(plan: Plan, out: Path | None) -> Prediction:
    """Returns what `plan` can show, by the variance of earlier runs beside `out`, or by a default."""
    spreads = {} if out is None else earlier_spreads(out.parent, _model_sha256(plan.model.path), without=out)
    candidates = sum(variant.role == "candidate" for variant in plan.variants)
    return predict(_cells(plan), plan.config.judge, spreads, candidates=candidates)


def _cells(plan: Plan) -> list[PlannedCell]:
    cells: dict[tuple[str, int], list[Sample]] = {}
    for sample in plan.samples:
        cells.setdefault((sample.task, sample.context_length), []).append(sample)
    return [_cell(plan, samples) for samples in cells.values()]


def _cell(plan: Plan, samples: list[Sample]) -> PlannedCell:
    first = samples[0]
    is_forced = plan.config.requests.forced_decode and plan.config.judge.evidence != "greedy"
    units = {plan.references[one.sample_id].references.unit for one in samples if one.sample_id in plan.references}
    unit = next((unit for unit in UNITS if unit in units), None) if is_forced else None
    return PlannedCell(
        task=first.task,
        family=first.family,
        context_length=first.context_length,
        kind=unit or "greedy",
        samples=len(samples),
        haystacks=len({sample.haystack_id for sample in samples}),
    )


def _model_sha256(model: Path) -> str | None:
    try:
        return hashlib.sha256((model / "config.json").read_bytes()).hexdigest()
    except OSError:
        return None
