"""Predicts what the plan of a sweep can show, and how alike the questions of a haystack are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kveval.config.sweep import SweepConfig
from kveval.judge.comparison.pairing import UNITS
from kveval.judge.prediction.correlation import earlier_correlation
from kveval.judge.prediction.predict import PlannedCell, predict
from kveval.judge.prediction.prediction import Prediction
from kveval.judge.prediction.variance import earlier_spreads
from kveval.judge.statistics.clusters import fewest_clusters
from kveval.measure.plan.plan import Plan
from kveval.measure.questions.balance import Clustering
from kveval.measure.questions.choose import ClusteringOf
from kveval.measure.questions.earlier import config_sha256
from kveval.tasks.sample import Sample


def predict_plan(plan: Plan, out: Path | None) -> Prediction:
    """Returns what `plan` can show, by the variance of earlier runs beside `out`, or by a default."""
    spreads = {} if out is None else earlier_spreads(out.parent, config_sha256(plan.model.path), without=out)
    candidates = sum(variant.role == "candidate" for variant in plan.variants)
    return predict(_cells(plan), plan.config.judge, spreads, candidates=candidates)


def clustering_of(config: SweepConfig) -> ClusteringOf:
    """Returns a function that says how alike the questions of a haystack are for the model in a folder.

    It looks at the runs of that model beside the one that is planned.
    """

    def of_model(model: Path) -> Clustering:
        out, confidence = config.out, config.judge.confidence
        known = Clustering(fewest_contexts=fewest_clusters(confidence), confidence=confidence)
        if out is None:
            return known
        found = earlier_correlation(out.parent, config_sha256(model), without=out, careful=known.correlation)
        return known if found is None else replace(known, correlation=found[0], source=found[1])

    return of_model


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
