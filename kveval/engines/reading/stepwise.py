"""Reads how probable a vLLM server finds given texts, without a plugin: one request for every token.

The request for a token sends the prompt and the text before it. The server may write only the token before
(``allowed_token_ids``), and then says how probable it finds the token itself (``logprob_token_ids``). So every token
but the first is read in a decode step over the quantized cache, as a forced output's is. The prefix cache has the
prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import numpy as np

from kveval.engines.client.client import Client
from kveval.engines.client.request import EngineRequest
from kveval.engines.reading.reader import CHECKED_TOKENS, ForcedDecodeError, all_of

# Two readings of one token differ by less: other requests in the batch change the order of additions.
_TOLERANCE_NATS = 0.3
_SMOKE_SALT = "kveval-smoke"


class StepwiseDecoder:
    """Reads the probabilities of texts on one server, token by token.

    Args:
        max_in_flight: requests running at once.

    Attributes:
        temperature: servers report the probabilities that a model samples from at temperature 1, whatever they serve.
        most_tokens: texts of one sample that have more tokens together are too costly to read.
    """

    method: Literal["stepwise"] = "stepwise"
    temperature = 1.0
    most_tokens: int | None = 256

    def __init__(self, client: Client, max_in_flight: int) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(max_in_flight)

    def requests(self, tokens: int) -> int:
        """Returns how many requests a text of so many tokens takes."""
        return tokens

    async def logprobs(
        self, prompt_ids: np.ndarray, token_ids: Sequence[int], *, cache_salt: str | None = None
    ) -> np.ndarray:
        """Returns the natural logarithm of each token's probability after the prompt, float32 [tokens].

        Raises:
            ForcedDecodeError: a request failed, the server wrote another token, or does not say what was asked.
        """
        read = (self._logprob(prompt_ids, token_ids[:end], cache_salt) for end in range(1, len(token_ids) + 1))
        return np.array(await all_of(read), np.float32)

    async def _logprob(self, prompt_ids: np.ndarray, token_ids: Sequence[int], cache_salt: str | None) -> float:
        """Returns the logarithm of the last token's probability."""
        *before, token = token_ids
        sent, written = before[:-1], before[-1:]
        request = EngineRequest(
            np.concatenate((prompt_ids, np.array(sent, np.int32))),
            len(written) + 1,
            cache_salt=cache_salt,
            ignore_eos=True,
            only_id=written[0] if written else None,
            read_id=token,
        )
        async with self._slots:
            answer = await self._client.ask(request)
        if answer.error_kind is not None:
            raise ForcedDecodeError(answer.error_kind, answer.error_message)
        if answer.output_token_ids[: len(written)] != written:
            raise ForcedDecodeError("not_forced", f"the server wrote {answer.text[:40]!r} instead of one given token")
        said = list(zip(answer.top_ids, answer.top_logprobs, strict=True))[len(written) :]
        found = [dict(zip(*one, strict=True)).get(token) for one in said]
        if len(found) != 1 or found[0] is None:
            raise ForcedDecodeError("no_result", "the server does not say how probable a given token is")
        return found[0]

    async def check(self, prompt_ids: np.ndarray, text_ids: Sequence[int]) -> str | None:
        """Reads a free answer and a known text. Returns why the server cannot be read, or None if it can.

        What the server says of its own answer must be what is read of the same tokens. The known text shows that it
        writes what no model would.
        """
        dialect = self._client.access.dialect
        if dialect.prompt != "token_ids" or dialect.names_tokens_by != "id" or dialect.most_logprobs == 0:
            return "the server takes no token ids, or gives no logprobs by token id"
        free = EngineRequest(
            prompt_ids, CHECKED_TOKENS, cache_salt=_SMOKE_SALT, ignore_eos=True, read_id=int(text_ids[0])
        )
        answer = await self._client.ask(free)
        said = zip(answer.output_token_ids, answer.top_ids, answer.top_logprobs, strict=False)
        reported = [dict(zip(ids, values, strict=True)).get(token, np.nan) for token, ids, values in said]
        if answer.error_kind is not None or not reported:
            return answer.error_message or "the server does not report the probabilities of its answers"
        try:
            read = await self.logprobs(prompt_ids, answer.output_token_ids, cache_salt=_SMOKE_SALT)
            await self.logprobs(prompt_ids, list(text_ids[:CHECKED_TOKENS]), cache_salt=_SMOKE_SALT)
        except ForcedDecodeError as error:
            return str(error)
        furthest = float(np.abs(np.array(reported) - read).max())
        if not furthest <= _TOLERANCE_NATS:
            return f"probabilities read token by token differ from those of an answer by {furthest:.3g} nats"
        return None
