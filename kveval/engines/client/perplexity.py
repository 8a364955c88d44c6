"""Asks for the logprobs of a known text, and computes the model's perplexity on it."""

from __future__ import annotations

import json
import math
from typing import Any

from kveval.engines.client.dialect import Dialect
from kveval.engines.client.failures import RequestFailedError


def perplexity_fields(dialect: Dialect) -> dict[str, Any]:
    """Returns the fields of a request that ask for the logprobs of its prompt."""
    return {"echo": True, "logprobs": 1} if dialect.perplexity == "echo" else {"prompt_logprobs": 0}


def perplexity_of(content: bytes, dialect: Dialect) -> float:
    """Returns the perplexity of the prompt that `content` answers.

    Raises:
        RequestFailedError: the logprobs are missing, or the perplexity is not finite.
    """
    try:
        whole = json.loads(content)
        choice = whole["choices"][0]
        if dialect.perplexity == "echo":
            # The first token has no logprob. After the prompt may come the token that was generated.
            values = choice["logprobs"]["token_logprobs"][1 : whole["usage"]["prompt_tokens"]]
        else:
            values = [next(iter(row.values()))["logprob"] for row in choice["prompt_logprobs"] if row]
        result = math.exp(-sum(values) / len(values))
    except (ValueError, KeyError, TypeError, IndexError, ZeroDivisionError, OverflowError, StopIteration) as error:
        raise RequestFailedError("non_finite", f"unusable prompt logprobs: {error!r}", retry=False) from error
    if not math.isfinite(result):
        raise RequestFailedError("non_finite", "the perplexity of plain text is not finite", retry=False)
    return result
