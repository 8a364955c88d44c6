"""Asks for the expected score of a sample: how probable the model finds the right answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from kveval.engines.forced import ForcedDecodeError, ForcedDecoder
from kveval.measure.plan.references import PlannedReferences
from kveval.run.records import ExpectedScore, Record, RecordError
from kveval.tasks.references.expected import MissingProbabilityError, expected_of
from kveval.tasks.sample import Sample

# What stands for the logarithm of 0, as in vLLM's own answers. JSON has no infinity.
_LEAST_LOGPROB = -9999.0


class ExpectedAsker:
    """Forces the references of samples on one server.

    Args:
        references: by sample_id.
        decoder: None if the server cannot be forced.
    """

    def __init__(self, references: Mapping[str, PlannedReferences], decoder: ForcedDecoder | None) -> None:
        self._references = references
        self._decoder = decoder

    def planned_hit_tokens(self, samples: Iterable[Sample], block_size: int) -> int:
        """Returns the prompt tokens that come from the cache when the references of `samples` are forced.

        The question was answered just before, so all whole blocks of its prompt do, but for its last token.
        """
        if self._decoder is None:
            return 0
        planned = ((sample, self._references.get(sample.sample_id)) for sample in samples)
        return sum(
            (len(sample.prompt) - 1) // block_size * block_size * len(references.texts)
            for sample, references in planned
            if references is not None
        )

    async def complete(self, record: Record, sample: Sample) -> Record:
        """Returns the record with its expected score, or with the reason why there is none.

        A sample without a reference, and one that the engine failed to answer, are returned as they are.
        """
        planned = self._references.get(sample.sample_id)
        if self._decoder is None or planned is None or record.outcome == "engine_error":
            return record
        try:
            expected = await _expected(self._decoder, sample, planned)
        except ForcedDecodeError as error:
            return record.model_copy(update={"expected_error": RecordError(kind=error.kind, message=str(error))})
        except MissingProbabilityError as error:
            return record.model_copy(update={"expected_error": RecordError(kind="non_finite", message=str(error))})
        return record.model_copy(update={"expected": expected})


async def _expected(decoder: ForcedDecoder, sample: Sample, planned: PlannedReferences) -> ExpectedScore:
    prompt_ids = sample.prompt.token_ids()
    logprobs = [(await decoder.force(prompt_ids, text.token_ids.tolist())).logprobs for text in planned.texts]
    expected = expected_of(planned.references, planned.texts, logprobs)
    return ExpectedScore(
        score=expected.score,
        unit=expected.unit,
        temperature=decoder.temperature,
        parts=dict(expected.parts),
        lead=planned.opening + planned.references.alternatives[0].lead,
        token_ids=[text.token_ids.tolist() for text in planned.texts],
        logprobs=[np.maximum(values, _LEAST_LOGPROB).round(5).tolist() for values in logprobs],
    )
