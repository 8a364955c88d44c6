"""Adds up what a server's counters rise by, and notices when they cannot be believed."""

from __future__ import annotations

from collections.abc import Iterator

from kveval.engines.metrics import counters
from kveval.run.facts import Finding

# Its parts are read at slightly different moments, so it alone may fall a little.
_DERIVED = "prompt_tokens_computed"
# Two readings of one start time differ by less than this.
_SAME_START_SECONDS = 1.0


class CounterLog:
    """The counters of one server, read from time to time.

    A counter that fell was started again, with its server. It then adds what it has counted since.

    Attributes:
        is_continuous: every reading had counters, and none was started again.

    Example:
        log = CounterLog()
        log.read(await client.metrics_text(), 0)
        ...
        log.read(await client.metrics_text(), 120)
        log.added["prefix_cache_hits"]
    """

    def __init__(self) -> None:
        self.unreadable: set[str] = set()
        self._added: dict[str, float] = {}
        self._last: dict[str, float] | None = None
        self._last_answered = 0
        self._started_at: float | None = None
        self._restarts: list[tuple[int, int]] = []
        self._readings = 0
        self._lost: list[int] = []

    @property
    def added(self) -> dict[str, float]:
        """How much each counter rose from the first reading to the last, without counters that were unreadable once."""
        return {name: value for name, value in self._added.items() if name not in self.unreadable}

    @property
    def is_continuous(self) -> bool:
        return not self._restarts and not self._lost

    def read(self, metrics_text: str, answered: int) -> None:
        """Takes one reading of /metrics. `answered`: questions that had been answered by then."""
        found = counters(metrics_text)
        self._readings += 1
        self.unreadable |= found.unreadable
        if found.is_empty:
            if self._last is not None:
                self._lost.append(answered)
            return
        last = self._last
        if last is not None:
            restarted = self._is_other_start(found.started_at) or any(
                value < last.get(name, 0.0) for name, value in found.values.items() if name != _DERIVED
            )
            if restarted:
                self._restarts.append((self._last_answered, answered))
            for name, value in found.values.items():
                rise = value if restarted else value - last.get(name, 0.0)
                self._added[name] = self._added.get(name, 0.0) + rise
            # What is missing once goes on from where it was.
            self._last = found.values if restarted else last | found.values
        else:
            self._last = dict(found.values)
        self._started_at = found.started_at or self._started_at
        self._last_answered = answered

    def _is_other_start(self, started_at: float | None) -> bool:
        if self._started_at is None or started_at is None:
            return False
        return abs(started_at - self._started_at) > _SAME_START_SECONDS

    def findings(self) -> Iterator[Finding]:
        """Yields why the counters say less than they seem to."""
        if self._restarts:
            (after, before), times = self._restarts[0], len(self._restarts)
            more = "" if times == 1 else f" (and {times - 1} more times)"
            yield Finding.warning(
                "counters_reset",
                f"the server's counters started again between answer {after} and answer {before}{more}: it was "
                "restarted, or several servers answer at its address; what it counts is incomplete",
            )
        if self._lost:
            yield Finding.warning(
                "metrics_lost",
                f"/metrics gave no vLLM metrics from answer {self._lost[0]} on ({len(self._lost)} of "
                f"{self._readings} readings), after it had them: its counters are incomplete, and the cache dtype and "
                "the capacity could not be read again",
            )
        if self.unreadable:
            yield Finding.warning(
                "metrics_unreadable",
                f"/metrics says what is no count (NaN, an infinity, or below 0) of {', '.join(sorted(self.unreadable))}"
                ": not used",
            )
