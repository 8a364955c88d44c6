"""Looks at a server's facts again while it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kveval.engines.session import Session
from kveval.errors import FactsChangedError
from kveval.measure import provenance
from kveval.run.directory import RunDirectory
from kveval.run.facts import Facts, FactsChange
from kveval.run.set_aside import AnswersSince

# A busy server may fail to tell its facts once. The last time, it is asked this often.
_LAST_READINGS = 4
_SECONDS_BETWEEN = 1.0


class FactsWatch:
    """Looks at the facts of one variant's server again, over all its launches.

    Only answers between two readings of the same facts can be trusted. If a fact changed, or is not told any more at
    the end, the answers since the reading before are set aside.

    Args:
        answered: questions answered before.

    Attributes:
        changes: what changed. Empty while nothing did.
        refusal: says what changed. None while nothing did.
    """

    def __init__(self, run: RunDirectory, variant: str, answered: int) -> None:
        self.changes: list[FactsChange] = []
        self.refusal: FactsChangedError | None = None
        self._run = run
        self._variant = variant
        self._since = AnswersSince(run, variant)
        self._last_good = answered

    async def look(self, session: Session, answered: int, *, is_last: bool = False) -> None:
        """Reads the facts once more.

        Args:
            answered: questions answered so far.
            is_last: no later reading can vouch for the answers so far.

        Raises:
            FactsChangedError: a fact changed, or the last reading does not tell it.
            EngineError: the server does not answer.
        """
        since = AnswersSince(self._run, self._variant)
        look = await session.look_again()
        self._refuse(look.changed, answered)
        for _ in range(_LAST_READINGS - 1 if is_last else 0):
            if look.untold:
                await asyncio.sleep(_SECONDS_BETWEEN)
                look = await session.look_again()
                self._refuse(look.changed, answered)
        if is_last:
            told = session.facts.model_dump(include=set(look.untold))
            self._refuse({name: (str(told[name]), "not told any more") for name in look.untold}, answered)
        # A fact that the server no longer tells may have changed: the answers wait for the next reading.
        if not look.untold:
            self._since, self._last_good = since, answered

    def compare(self, before: Facts, now: Facts, answered: int) -> None:
        """Compares the facts of a server that went away with those of the one that came back.

        Raises:
            FactsChangedError: they differ.
        """
        self._refuse(before.compared_with(now).changed, answered)
        self._since, self._last_good = AnswersSince(self._run, self._variant), answered

    def _refuse(self, changed: Mapping[str, tuple[str, str]], answered: int) -> None:
        if not changed:
            return
        at = provenance.now()
        self.changes = [
            FactsChange(at_question=answered, at=at, name=name, before=before, after=after)
            for name, (before, after) in changed.items()
        ]
        moved = self.set_aside()
        what = "; ".join(f"{one.name} was {one.before} and is {one.after}" for one in self.changes)
        self.refusal = FactsChangedError(
            f"{self._variant}: the server changed while it was asked, between answer {self._last_good} and answer "
            f"{answered} ({at}): {what}. The {moved} answers since answer {self._last_good} are not used (set_aside/); "
            "use: --resume with the server as it was, which asks them again"
        )
        raise self.refusal

    def set_aside(self) -> int:
        """Sets aside what was answered since the last reading of the same facts. Returns how many answers there were.

        After a refusal, call it once more when nothing is asked any more: some questions were still being answered.
        """
        return self._since.set_aside()
