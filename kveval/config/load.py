"""How a server is loaded to measure its speed: the configuration's ``load``."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from kveval.config.values import ContextLength, StrictModel, check_listed_once


class LoadConfig(StrictModel):
    """Every concurrency and every request rate is measured at every prompt length.

    Attributes:
        concurrency: requests in flight, each replaced as it ends (closed loop).
        request_rates: requests per second that arrive at random, however many are in flight (open loop, Poisson).
        prompt_lengths: prompt tokens of every request; the prompts are unique.
        output_tokens: of every request, exactly: the end-of-sequence token is ignored.
        requests: per level, counted; at least twice the concurrency, so that it is reached for a while.
        warmup_requests: before each level, not counted.
        mixed: also measure requests whose lengths are drawn from `prompt_lengths`, where there are several.
        longest_context: also send one request as long as the server takes.
        aa: measure the baseline a second time, to see how much two launches of the same engine differ.
        sample_interval_s: how often kveval looks at what is running, waiting and held in the cache. Each look costs
            the server a little time.
    """

    concurrency: list[Annotated[int, Field(gt=0, le=4096)]] = [1, 8]
    request_rates: list[Annotated[float, Field(gt=0, le=10_000)]] = []
    prompt_lengths: Annotated[list[ContextLength], Field(min_length=1)] = [1024, 4096]
    output_tokens: Annotated[int, Field(gt=1, le=1 << 16)] = 64
    requests: Annotated[int, Field(gt=0, le=10_000)] = 32
    warmup_requests: Annotated[int, Field(ge=0, le=1_000)] = 2
    mixed: bool = True
    longest_context: bool = True
    aa: bool = False
    sample_interval_s: Annotated[float, Field(ge=0.05)] = 1.0

    @model_validator(mode="after")
    def _something_once(self) -> Self:
        if not (self.concurrency or self.request_rates):
            raise ValueError("concurrency, request_rates: both empty; use a number in one of them")
        for key in ("concurrency", "request_rates", "prompt_lengths"):
            check_listed_once(key, getattr(self, key))
        return self

    @property
    def longest_tokens(self) -> int:
        """The longest prompt in `prompt_lengths` and its output together."""
        return max(self.prompt_lengths) + self.output_tokens
