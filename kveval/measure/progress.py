"""Shows what a sweep is doing: bars on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import time
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from kveval.run.records import Record


class Reporter(Protocol):
    """Shows progress. `tokens`: what a sample costs, including its share of the prefill of its haystack."""

    def begin(self, total_tokens: int, done_tokens: int) -> None: ...
    def variant(self, name: str, samples: int, done: int) -> None: ...
    def status(self, text: str) -> None: ...
    def answered(self, record: Record, tokens: int) -> None: ...
    def note(self, text: str) -> None: ...


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Remaining:
    """Estimates the time left from the speed of this sweep so far."""

    def __init__(self) -> None:
        self.begin(0, 0)

    def begin(self, total: int, done: int) -> None:
        self._total, self._done, self._done_before = total, done, done
        self._started = time.monotonic()

    def advance(self, tokens: int) -> None:
        self._done += tokens

    def __str__(self) -> str:
        done_here = self._done - self._done_before
        if done_here <= 0:
            return "-:--"
        rate = done_here / (time.monotonic() - self._started)
        return _duration(max(self._total - self._done, 0) / rate)


class LineReporter:
    """Prints one line per phase, and one per tenth of a variant's samples."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._remaining = _Remaining()
        self._name, self._samples, self._done = "", 0, 0
        self._last_status = ""

    def begin(self, total_tokens: int, done_tokens: int) -> None:
        self._remaining.begin(total_tokens, done_tokens)

    def variant(self, name: str, samples: int, done: int) -> None:
        self._name, self._samples, self._done = name, samples, done
        self._last_status = ""
        self._print(f"{name}: {samples - done} of {samples} samples to ask")

    def status(self, text: str) -> None:
        if text != self._last_status:
            self._last_status = text
            self._print(f"{self._name}: {text}")

    def answered(self, record: Record, tokens: int) -> None:
        self._done += 1
        self._remaining.advance(tokens)
        step = max(1, self._samples // 10)
        if self._done % step == 0 or self._done == self._samples:
            self._print(
                f"{self._name}: {self._done}/{self._samples} answered, now {record.task} at {record.context_length}, "
                f"{self._remaining} left in this sweep"
            )

    def note(self, text: str) -> None:
        self._print(text)

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class SilentReporter(LineReporter):
    """Prints nothing."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True))


class BarReporter:
    """Shows a live bar per variant, with what is happening and how long is left."""

    def __init__(self, console: Console) -> None:
        self._remaining = _Remaining()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[name]}", style="bold"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console,
        )
        self._bar: TaskID | None = None

    def __enter__(self) -> BarReporter:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, total_tokens: int, done_tokens: int) -> None:
        self._remaining.begin(total_tokens, done_tokens)

    def variant(self, name: str, samples: int, done: int) -> None:
        if self._bar is not None:
            self._progress.update(self._bar, description="done")
            self._progress.stop_task(self._bar)
        self._bar = self._progress.add_task("", total=samples, completed=done, name=name)

    def status(self, text: str) -> None:
        if self._bar is not None:
            self._progress.update(self._bar, description=text)

    def answered(self, record: Record, tokens: int) -> None:
        self._remaining.advance(tokens)
        if self._bar is not None:
            self._progress.update(
                self._bar,
                advance=1,
                description=f"{record.task} at {record.context_length}, {self._remaining} left in this sweep",
            )

    def note(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)
