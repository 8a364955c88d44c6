"""Makes every variant write the same texts after its samples are answered, and writes down what it said of them."""

from __future__ import annotations

import time

import numpy as np

from kveval.engines.client.client import Client
from kveval.engines.client.request import EngineRequest
from kveval.engines.reading.forced import ForcedDecoder
from kveval.engines.reading.reader import ForcedDecodeError
from kveval.engines.session import Session
from kveval.engines.variants import ResolvedVariant
from kveval.errors import RunDirectoryError
from kveval.measure.divergence.texts import PlannedText
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import Reporter
from kveval.run.directory import RunDirectory
from kveval.run.divergence import DivergenceFolder, DivergenceTexts, Reading, ids_digest
from kveval.run.manifest import Manifest

# Divergence and perplexity are those of the model's own probabilities.
_TEMPERATURE = 1.0


class DivergenceStage:
    """Forces every text on a variant's server, one after the other.

    Other requests at the same time would change the batch, and with it the last bits of what is read. The baseline goes
    first. It writes the outputs, and its most likely tokens are what all other variants are asked for.
    """

    def __init__(self, plan: Plan, run: RunDirectory, manifest: Manifest, reporter: Reporter) -> None:
        self._plan = plan
        self._manifest = manifest
        self._reporter = reporter
        self._folder = DivergenceFolder(run.path)
        if plan.texts:
            self._folder.write_texts(DivergenceTexts(texts=tuple(text.row() for text in plan.texts)))

    def is_missing(self, variant: ResolvedVariant) -> bool:
        """Whether a server that can be forced has not written every text that it could write."""
        return self._manifest.variants[variant.name].facts.forced_decode is True and bool(self._missing(variant))

    def _missing(self, variant: ResolvedVariant) -> list[PlannedText]:
        return [text for text in self._plan.texts if self._can_be_read(variant, text) and not self._has(variant, text)]

    def _can_be_read(self, variant: ResolvedVariant, text: PlannedText) -> bool:
        return variant.role == "baseline" or self._read(self._plan.config.baseline, text) is not None

    def _has(self, variant: ResolvedVariant, text: PlannedText) -> bool:
        own, baseline = self._read(variant.name, text), self._read(self._plan.config.baseline, text)
        return own is not None and baseline is not None and np.array_equal(own.ids_sha256, baseline.ids_sha256)

    def _read(self, variant: str, text: PlannedText) -> Reading | None:
        try:
            return self._folder.read(variant, text.text_id)
        except RunDirectoryError as error:
            self._reporter.note(f"{variant}: {error}")
            return None

    async def started(self, session: Session) -> None:
        """Does nothing."""

    async def run(self, session: Session) -> None:
        """Forces what is missing. A text that fails is left out, and forced again on resume."""
        variant = session.variant
        missing = self._missing(variant)
        if not missing:
            return
        failed: list[str] = []
        # The ids of an output come with its logprobs.
        async with session.client(logprobs=1) as client:
            decoder = session.decoder(client, _TEMPERATURE)
            if decoder is None:
                self._reporter.note(f"{variant.name}: no divergence: outputs cannot be forced on its server")
                return
            for number, text in enumerate(missing, start=1):
                self._reporter.status(f"forcing text {number} of {len(missing)}")
                try:
                    reading = await self._force(client, decoder, variant, text)
                except ForcedDecodeError as error:
                    failed.append(str(error))
                    self._folder.write_failure(variant.name, text.text_id, str(error))
                    if session.engine.exit_message() is not None:
                        break
                else:
                    self._folder.write(variant.name, text.text_id, reading)
        if failed:
            left = len(self._missing(variant))
            self._reporter.note(f"{variant.name}: no divergence along {left} of {len(missing)} texts: {failed[0]}")

    async def _force(
        self, client: Client, decoder: ForcedDecoder, variant: ResolvedVariant, text: PlannedText
    ) -> Reading:
        baseline = None if variant.role == "baseline" else self._read(self._plan.config.baseline, text)
        if baseline is not None:
            token_ids, read_ids = baseline.token_ids, baseline.kept_ids
        else:
            token_ids = await _written(client, text) if text.token_ids is None else text.token_ids
            read_ids = None
        # Every variant reads the prompt from its cache, as the baseline does after it wrote the output.
        await _ask(client, EngineRequest(text.prompt_ids, 1, ignore_eos=True), accepted="non_finite")
        began = time.monotonic()
        top_k = text.top_k if read_ids is None else 0
        result = await decoder.force(text.prompt_ids, token_ids.tolist(), top_k=top_k, read_ids=read_ids)
        seconds = time.monotonic() - began
        kept = result.top_logprobs if read_ids is None else result.read_logprobs
        ids = result.top_ids if read_ids is None else read_ids
        if kept is None or ids is None or result.tail_logprobs is None:
            raise ForcedDecodeError("no_result", "the engine left no probabilities of other tokens")
        try:
            return Reading(
                token_ids=token_ids.astype(np.int32),
                kept_ids=ids if read_ids is None else ids[:0],
                kept_logprobs=kept,
                logprobs=result.logprobs,
                tail_logprobs=result.tail_logprobs,
                argmax_ids=result.argmax_ids,
                ids_sha256=ids_digest(token_ids, ids),
                seconds=np.array([seconds]),
            )
        except ValueError as error:
            raise ForcedDecodeError("no_result", f"the engine left a broken result: {error}") from error


async def _written(client: Client, text: PlannedText) -> np.ndarray:
    """Returns what the baseline writes after a prompt.

    It goes on after the end of an answer, so that the number of tokens is one of the plan, not of the outcome.
    """
    ids = (await _ask(client, EngineRequest(text.prompt_ids, text.tokens, ignore_eos=True)))[: text.tokens]
    if len(ids) != text.tokens:
        raise ForcedDecodeError("no_result", f"the baseline wrote {len(ids)} of {text.tokens} tokens")
    return np.array(ids, np.int32)


async def _ask(client: Client, request: EngineRequest, *, accepted: str | None = None) -> list[int]:
    answer = await client.ask(request)
    if answer.error_kind not in (None, accepted):
        raise ForcedDecodeError(answer.error_kind, answer.error_message)
    return answer.output_token_ids
