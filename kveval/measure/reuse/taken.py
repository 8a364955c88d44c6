"""Says which earlier answers can be taken. What can be computed again is not believed: scores are."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kveval.engines.client.answer import EngineAnswer
from kveval.errors import RunDirectoryError
from kveval.measure.plan.plan import Plan
from kveval.measure.records import record_of, sample_row
from kveval.run.directory import RunDirectory
from kveval.run.records import Record, SampleRow
from kveval.tasks.references.expected import MissingProbabilityError, expected_of
from kveval.tasks.sample import Sample

# Logarithms of probabilities are stored with five decimals.
_ROUNDING = 1e-3
_CLOCKS_DIFFER_S = 86400.0
_SAME_OF_ROWS = ("haystack_id", "task", "context_length", "prompt_sha256", "max_output_tokens", "stop")


@dataclass(frozen=True, slots=True)
class Taken:
    """Answers of an earlier run to samples of this one.

    Attributes:
        records, cold: by sample_id.
        refusal: why none can be taken.
    """

    records: Mapping[str, Record]
    cold: Mapping[str, Record]
    refusal: str | None = None


def answers_to_take(plan: Plan, run: RunDirectory, variant: str, samples: Sequence[Sample]) -> Taken:
    """Returns the answers that the variant gave to `samples` in an earlier run.

    Answers that are missing, failed or lack their expected score are left out: they are asked.
    """
    try:
        rows = {row.sample_id: row for row in run.samples()}
        wanted = {sample.sample_id: sample for sample in samples if _is_same(rows.get(sample.sample_id), sample)}
        found = {one.sample_id: one for one in run.records(variant) if one.sample_id in wanted}
        cold = {one.sample_id: one for one in run.cold_records(variant) if one.sample_id in wanted}
    except RunDirectoryError as error:
        return Taken({}, {}, str(error))
    usable = {key: one for key, one in found.items() if _is_usable(one, plan)}
    warm_cold = {key: one for key, one in cold.items() if key in usable and one.outcome != "engine_error"}
    refusal = _why_not_scored_so(plan, wanted, [*usable.values(), *warm_cold.values()])
    return Taken({}, {}, refusal) if refusal else Taken(usable, warm_cold)


def _is_same(row: SampleRow | None, sample: Sample) -> bool:
    if row is None:
        return False
    ours = sample_row(sample)
    return all(getattr(row, key) == getattr(ours, key) for key in _SAME_OF_ROWS)


def _is_usable(record: Record, plan: Plan) -> bool:
    if record.outcome == "engine_error" or record.expected_error is not None:
        return False
    temperature = record.expected.temperature if record.expected else plan.serving_temperature
    return temperature == plan.serving_temperature


def _why_not_scored_so(plan: Plan, samples: Mapping[str, Sample], records: Iterable[Record]) -> str | None:
    """Scores every answer again. Returns which one has another score now, or does not belong to its sample."""
    for record in records:
        sample = samples[record.sample_id]
        if (record.task, record.context_length, record.haystack_id) != (
            sample.task,
            sample.context_length,
            sample.haystack_id,
        ):
            return f"its record of sample {record.sample_id} says it is of another task, length or haystack"
        if not 0 < record.sent_at < time.time() + _CLOCKS_DIFFER_S:
            return (
                f"its record of sample {record.sample_id} says it was asked at {record.sent_at:g} seconds of Unix time"
            )
        answer = EngineAnswer(
            text=record.output,
            finish_reason=record.finish_reason,
            prompt_tokens=record.prompt_tokens,
            output_token_ids=record.output_token_ids,
        )
        now = record_of(sample, plan.tasks[sample.task], record.variant, answer, plan.reasoning)
        if (now.outcome, now.score) != (record.outcome, record.score):
            return (
                f"its answer to sample {record.sample_id} is {record.outcome} with score {record.score:g} there, and "
                f"{now.outcome} with score {now.score:g} as it is scored now"
            )
        if record.expected is not None and not _is_expected(plan, record):
            return f"its expected score of sample {record.sample_id} does not follow from the probabilities beside it"
    return None


def _is_expected(plan: Plan, record: Record) -> bool:
    planned, said = plan.references.get(record.sample_id), record.expected
    if planned is None or said is None or said.unit != planned.references.unit:
        return False
    if said.token_ids != [text.token_ids.tolist() for text in planned.texts]:
        return False
    if [len(values) for values in said.logprobs] != [len(ids) for ids in said.token_ids]:
        return False
    try:
        score = expected_of(planned.references, planned.texts, said.logprobs).score
    except MissingProbabilityError:
        return False
    return math.isclose(score, said.score, abs_tol=_ROUNDING)
