"""Prints text so that nothing in it can steer the terminal, whoever wrote it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

# Bidirectional controls, zero-width characters and the byte order mark are category Cf; C0 and C1 controls Cc; lone
# surrogates Cs; private use Co; line and paragraph separators Zl and Zp.
_SPELLED = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_KEPT = {"\n", "\t"}

SUSPECT = re.compile(r"[^\t\n\x20-\x7e]")
"""Characters that `spell` may change. No other character needs a look."""


def visible(text: str) -> str:
    """Returns `text` with every control, format, surrogate and private character written as ``⟨U+202E⟩``."""
    return SUSPECT.sub(lambda match: spell(match[0]), text)


def is_spelled(character: str) -> bool:
    """Returns whether `visible` spells a character out."""
    return character not in _KEPT and unicodedata.category(character) in _SPELLED


def spell(character: str) -> str:
    """Returns a character, or its code in words if it cannot be seen or moves other text."""
    return f"⟨U+{ord(character):04X}⟩" if is_spelled(character) else character


class Terminal(Console):
    """A rich console that prints every text as `visible` does: tables, progress bars and messages.

    kveval prints through this class only. Colors and cursor movements that rich adds itself still work.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        # Rich drops some control characters from strings before it renders them. They are to be seen.
        super().print(*(visible(one) if isinstance(one, str) else one for one in objects), **options)

    def say(self, text: str) -> None:
        """Prints one line as it is: not wrapped, and without markup."""
        self.print(text, markup=False, highlight=False, soft_wrap=True)

    def forget(self) -> None:
        """Drops what a stream refused to take. Rich keeps it, and would print it with the next text."""
        with self.capture():
            pass

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            shown = segment.text if segment.control else visible(segment.text)
            yield segment if shown == segment.text else Segment(shown, segment.style)
