"""Asks for the expected score of a sample: how probable the model finds the right answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import numpy as np

from kveval.engines.reading.reader import ForcedDecodeError, ProbabilityReader, all_of
from kveval.measure.plan.references import PlannedReferences
from kveval.run.records import ExpectedScore, Record, RecordError
from kveval.tasks.references.expected import MissingProbabilityError, expected_of
from kveval.tasks.sample import Sample

# What stands for the logarithm of 0, as in vLLM's own answers. JSON has no infinity.
_LEAST_LOGPROB = -9999.0


class ExpectedAsker:
    """Reads how probable one server finds the references of samples.

    Args:
        references: by sample_id.
        reader: None if the server does not tell.
        max_in_flight: references of all samples that are read at once.
    """

    def __init__(
        self, references: Mapping[str, PlannedReferences], reader: ProbabilityReader | None, max_in_flight: int
    ) -> None:
        most = reader.most_tokens if reader else None
        self._references = {key: one for key, one in references.items() if most is None or one.tokens <= most}
        self._reader = reader
        self._slots = asyncio.Semaphore(max_in_flight)

    def planned_hit_tokens(self, samples: Iterable[Sample], block_size: int) -> int:
        """Returns the prompt tokens that come from the cache when the references of `samples` are read.

        The question was answered just before, so all whole blocks of its prompt do, but for its last token.
        """
        if self._reader is None:
            return 0
        planned = ((sample, self._references.get(sample.sample_id)) for sample in samples)
        return sum(
            (len(sample.prompt) - 1)
            // block_size
            * block_size
            * sum(self._reader.requests(len(text.token_ids)) for text in references.texts)
            for sample, references in planned
            if references is not None
        )

    async def complete(self, record: Record, sample: Sample) -> Record:
        """Returns the record with its expected score, or with the reason why there is none.

        A sample without a reference, and one that the engine failed to answer, are returned as they are.
        """
        planned = self._references.get(sample.sample_id)
        if self._reader is None or planned is None or record.outcome == "engine_error":
            return record
        try:
            expected = await self._expected(self._reader, sample, planned)
        except ForcedDecodeError as error:
            return record.model_copy(update={"expected_error": RecordError(kind=error.kind, message=str(error))})
        except MissingProbabilityError as error:
            return record.model_copy(update={"expected_error": RecordError(kind="non_finite", message=str(error))})
        return record.model_copy(update={"expected": expected})

    async def _expected(self, reader: ProbabilityReader, sample: Sample, planned: PlannedReferences) -> ExpectedScore:
        prompt_ids = sample.prompt.token_ids()

        async def read(token_ids: list[int]) -> np.ndarray:
            async with self._slots:
                return await reader.logprobs(prompt_ids, token_ids)

        token_ids = [text.token_ids.tolist() for text in planned.texts]
        logprobs = await all_of(map(read, token_ids))
        expected = expected_of(planned.references, planned.texts, logprobs)
        return ExpectedScore(
            score=expected.score,
            unit=expected.unit,
            temperature=reader.temperature,
            method=reader.method,
            parts=dict(expected.parts),
            lead=planned.opening + planned.references.alternatives[0].lead,
            token_ids=token_ids,
            logprobs=[np.maximum(values, _LEAST_LOGPROB).round(5).tolist() for values in logprobs],
        )
