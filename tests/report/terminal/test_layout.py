"""What the tables of the terminal share."""

from __future__ import annotations

from typing import get_args

from support.printed import printed

from kveval.judge.comparison.verdict import Word
from kveval.judge.gate.check import State
from kveval.report.terminal.layout import STYLES, indented


def test_every_verdict_has_a_style() -> None:
    assert {*get_args(Word), *get_args(State)} <= STYLES.keys()


def test_a_paragraph_stays_indented_where_it_is_wrapped() -> None:
    lines = printed(indented("word " * 30, left=6), width=40).splitlines()
    assert len(lines) > 3
    assert all(line.startswith("      word") for line in lines if line.strip())


def test_control_characters_are_shown() -> None:
    assert "⟨U+001B⟩[2J [red]" in printed(indented("\x1b[2J [red]"))
