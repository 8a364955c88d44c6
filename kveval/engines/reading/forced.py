"""Makes a server write given texts, and reads how probable the model found them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from kveval.config.engine import by_flag
from kveval.engines.base import ServerPlan
from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.client import Client
from kveval.engines.client.request import EngineRequest
from kveval.engines.plugin.forcing import ForcedOutput, ForcedResult
from kveval.engines.reading.reader import CHECKED_TOKENS, ForcedDecodeError
from kveval.engines.variants import ResolvedVariant

# The processor and the answer read the same logits: they differ by float32 rounding alone.
_TOLERANCE_NATS = 1e-3


def why_not_forced(plan: ServerPlan, variant: ResolvedVariant) -> str | None:
    """Returns why kveval does not load its processor into the engine of a variant. None if it does."""
    if variant.config.endpoint is not None:
        return "kveval's plugin does not run inside a server that kveval did not launch"
    if variant.config.speculative_config is not None:
        return "vLLM takes no logits processor beside speculative decoding"
    if "logits-processors" in by_flag(plan.config.engine.args) | by_flag(variant.config.engine_args):
        return "the engine's arguments say which logits processors to load"
    if not plan.installation.has_forced_decode:
        # The engine would not start with a processor that it cannot import, or that finds no folder for its results.
        return (
            "kveval's plugin was not seen in the engine's environment; use: `pip install --no-deps kveval` there, and "
            "engine.python, which names its interpreter"
        )
    return None


class ForcedDecoder:
    """Forces texts on one server.

    Args:
        folder: where the processor inside the engine leaves its results.
        temperature: of the probabilities that are read.
    """

    method: Literal["forced_decode"] = "forced_decode"
    most_tokens: int | None = None

    def __init__(self, client: Client, folder: Path, temperature: float) -> None:
        self._client = client
        self._folder = folder
        self.temperature = temperature

    def requests(self, tokens: int) -> int:  # noqa: ARG002 (one for all)
        return 1

    async def logprobs(self, prompt_ids: np.ndarray, token_ids: Sequence[int]) -> np.ndarray:
        return (await self.force(prompt_ids, token_ids)).logprobs

    async def force(
        self,
        prompt_ids: np.ndarray,
        token_ids: Sequence[int],
        *,
        top_k: int = 0,
        read_ids: np.ndarray | None = None,
        cache_salt: str | None = None,
    ) -> ForcedResult:
        """Makes the engine write `token_ids` after the prompt, and returns what the model said of each.

        A token at which the model's logits are not numbers has NaN. It ends nothing.

        Args:
            top_k: how many of the most likely tokens to keep at every step.
            read_ids: int32 [tokens, k], other tokens whose probability to read at every step.

        Raises:
            ForcedDecodeError: the request failed, the engine wrote something else, or there is no result.
        """
        if read_ids is None:
            return (await self._force(prompt_ids, self._output(token_ids, top_k), cache_salt))[0]
        # Each engine reads its own folder, so the ids that another engine found are put there.
        name = uuid.uuid4().hex
        nothing = np.zeros(0, np.float32)
        ForcedResult(nothing, nothing.astype(np.int32), top_ids=read_ids).write(self._folder, name)
        try:
            return (await self._force(prompt_ids, self._output(token_ids, top_k, name), cache_salt))[0]
        finally:
            ForcedResult.remove(self._folder, name)

    def _output(self, token_ids: Sequence[int], top_k: int, read_ids: str | None = None) -> ForcedOutput:
        return ForcedOutput(list(token_ids), self.temperature, top_k, read_ids)

    async def _force(
        self, prompt_ids: np.ndarray, forced: ForcedOutput, cache_salt: str | None
    ) -> tuple[ForcedResult, EngineAnswer]:
        count = len(forced.token_ids)
        request = EngineRequest(prompt_ids, count, cache_salt=cache_salt, ignore_eos=True, forced=forced)
        answer = await self._client.ask(request)
        try:
            # Logits that are not numbers end no forced text: the result says where they are.
            if answer.error_kind not in (None, "non_finite"):
                raise ForcedDecodeError(answer.error_kind, answer.error_message)
            if answer.output_token_ids != list(forced.token_ids):
                raise ForcedDecodeError("not_forced", f"the engine wrote {answer.text[:40]!r} instead of the reference")
            try:
                result = ForcedResult.read(self._folder, forced.name)
            except (OSError, ValueError) as error:
                raise ForcedDecodeError("no_result", f"the engine left no result of a forced text: {error}") from error
            if len(result.logprobs) != count:
                raise ForcedDecodeError("no_result", f"{len(result.logprobs)} results for {count} forced tokens")
            if answer.error_kind == "non_finite" and np.isfinite(result.logprobs).all():
                raise ForcedDecodeError(answer.error_kind, answer.error_message)
            return result, answer
        finally:
            ForcedResult.remove(self._folder, forced.name)

    async def check(self, prompt_ids: np.ndarray, text_ids: Sequence[int]) -> str | None:
        """Forces a known text and reads it back. Returns why forcing does not work, or None if it does.

        The engine reports the probabilities of its answers itself. Those of the processor must be the same.
        """
        token_ids = [int(token) for token in text_ids[:CHECKED_TOKENS]]
        try:
            result, answer = await self._force(prompt_ids, ForcedOutput(token_ids), "kveval-smoke")
        except ForcedDecodeError as error:
            return str(error)
        reported = [
            dict(zip(ids, values, strict=True)).get(token, np.nan)
            for token, ids, values in zip(token_ids, answer.top_ids, answer.top_logprobs, strict=False)
        ]
        if len(reported) != len(token_ids):
            return "the engine does not report the probabilities of its answers"
        furthest = float(np.abs(np.array(reported) - result.logprobs).max())
        if not furthest <= _TOLERANCE_NATS:
            return f"probabilities read inside the engine differ from those it reports by {furthest:.3g} nats"
        return None
