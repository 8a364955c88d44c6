from __future__ import annotations

import io

import pytest
from rich.console import Console
from support.stored import RECORD

from kveval.measure.progress import BarReporter, LineReporter, Reporter, SilentReporter, _duration
from kveval.run.records import Record


def tell(reporter: Reporter, samples: int, done: int = 0) -> None:
    reporter.begin(100 * samples, 100 * done)
    reporter.variant("bf16", samples, done)
    for text in ("starting the engine", "loading weights", "loading weights", "asking"):
        reporter.status(text)
    for _ in range(samples - done):
        reporter.answered(Record.model_validate(RECORD), 100)
    reporter.note("bf16: a note with [brackets] and a long line " + "x" * 200)


def test_plain_lines_without_a_terminal() -> None:
    out = io.StringIO()
    tell(LineReporter(Console(file=out)), samples=20)
    lines = out.getvalue().splitlines()
    assert lines[:4] == [
        "bf16: 20 of 20 samples to ask",
        "bf16: starting the engine",
        "bf16: loading weights",
        "bf16: asking",
    ]
    answered = lines[4:-1]
    assert len(answered) == 10
    assert answered[0].startswith("bf16: 2/20 answered, now niah_single at 512, 0:00 left")
    assert answered[-1].startswith("bf16: 20/20 answered")
    assert lines[-1] == "bf16: a note with [brackets] and a long line " + "x" * 200
    assert all(character.isprintable() for line in lines for character in line)


def test_a_resumed_run_counts_from_what_is_there() -> None:
    out = io.StringIO()
    tell(LineReporter(Console(file=out)), samples=3, done=2)
    assert out.getvalue().splitlines()[0] == "bf16: 1 of 3 samples to ask"
    assert "bf16: 3/3 answered" in out.getvalue()


def test_bars_on_a_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=160)
    with BarReporter(console) as reporter:
        tell(reporter, samples=4)
        reporter.variant("fp8", 2, 0)
    assert "4/4" in out.getvalue()
    assert "0/2" in out.getvalue()
    assert "done" in out.getvalue()
    assert "a note with [brackets]" in out.getvalue()


def test_bars_may_be_told_things_before_the_first_variant() -> None:
    with BarReporter(Console(file=io.StringIO(), force_terminal=True)) as reporter:
        reporter.status("early")
        reporter.answered(Record.model_validate(RECORD), 1)


def test_silence() -> None:
    tell(SilentReporter(), samples=3)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (61.4, "1:01"), (3599.6, "1:00:00"), (7384, "2:03:04")])
def test_durations(seconds: float, text: str) -> None:
    assert _duration(seconds) == text
