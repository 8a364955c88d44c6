"""What every stage is to a sweep."""

from __future__ import annotations

from typing import Protocol

from kveval.engines.session import Session
from kveval.engines.variants import ResolvedVariant


class Stage(Protocol):
    """More work for a running server. A stage never changes the records of the samples."""

    def is_missing(self, variant: ResolvedVariant) -> bool:
        """Whether the stage needs the variant's server, even if every sample is answered."""
        ...

    async def started(self, session: Session) -> None:
        """Called as soon as the server is healthy."""
        ...

    async def run(self, session: Session) -> None:
        """Called after every sample is answered. `session.facts` are established.

        Raises:
            FactsError, EngineError: the stage cannot be done. The answers to the samples are kept.
        """
        ...
