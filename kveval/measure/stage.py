"""What else is done with a server that a sweep has launched and asked its samples."""

from __future__ import annotations

from typing import Protocol

from kveval.engines.base import Engine
from kveval.engines.variants import ResolvedVariant
from kveval.run.facts import Facts


class Stage(Protocol):
    """Never changes the samples' records."""

    def is_missing(self, variant: ResolvedVariant) -> bool:
        """Whether the variant's server is needed for it, samples or not."""
        ...

    async def started(self, variant: ResolvedVariant, engine: Engine, launched: float) -> None:
        """Called once the server is healthy. `launched`: `time.monotonic` before its start."""
        ...

    async def run(self, variant: ResolvedVariant, engine: Engine, facts: Facts) -> None:
        """Called once every sample is answered.

        Raises:
            FactsError, EngineError: it cannot be done; the samples' answers stand.
        """
        ...
