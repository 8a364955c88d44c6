"""How an engine is asked: the configuration's ``requests``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kveval.config.values import StrictModel


class RequestsConfig(StrictModel):
    """How the engine is asked.

    Attributes:
        timeout_s: one request, from sending to its last token.
        max_attempts: requests sent for one sample before it becomes an ``engine_error``.
        max_in_flight: requests running at once. The KV cache may allow fewer.
        logprobs: top alternatives recorded per output token; 0 records none.
    """

    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    max_attempts: Annotated[int, Field(gt=0, le=10)] = 3
    max_in_flight: Annotated[int, Field(gt=0)] = 32
    logprobs: Annotated[int, Field(ge=0, le=20)] = 20
