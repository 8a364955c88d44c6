"""Makes up names and numbers for code. No library has them, so a model must read to know them."""

from __future__ import annotations

import random
from collections.abc import Collection

from kveval.errors import ConfigError
from kveval.tasks.corpora.words import ADJECTIVES, NOUNS

_VERBS = (
    "adjust", "align", "apply", "arrange", "attach", "blend", "bundle", "carry", "clean", "collect", "convert", "count",
    "expand", "fold", "gather", "handle", "inspect", "merge", "mix", "order", "pack", "polish", "press", "push",
    "raise", "reduce", "repair", "rotate", "settle", "shift", "sort", "split", "stack", "sweep", "trace", "trim",
    "turn", "unfold", "weigh", "wrap",
)  # fmt: skip
_TRIES = 200


class MadeUpNames:
    """Draws names and numbers, none twice.

    Attributes:
        drawn: everything drawn so far.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.drawn: set[str] = set()

    def function(self, avoid: Collection[str] = ()) -> str:
        """Draws a name such as ``merge_lantern``.

        Args:
            avoid: lower-case words that must not be part of it.
        """
        return self._draw((_VERBS, NOUNS), "_", avoid)

    def variable(self) -> str:
        """Draws a name such as ``amber_falcon``."""
        return self._draw((ADJECTIVES, NOUNS), "_", ())

    def word(self) -> str:
        """Draws a name such as ``amber-falcon``."""
        return self._draw((ADJECTIVES, NOUNS), "-", ())

    def class_name(self) -> str:
        """Draws a name such as ``AmberFalcon``."""
        return self._draw((ADJECTIVES, NOUNS), "", ())

    def number(self, digits: int) -> str:
        """Draws a whole number of so many digits."""
        for _ in range(_TRIES):
            text = str(self._rng.randrange(10 ** (digits - 1), 10**digits))
            if text not in self.drawn:
                self.drawn.add(text)
                return text
        raise ConfigError(f"too many numbers of {digits} digits in one haystack; ask fewer questions about it")

    def _draw(self, decks: tuple[tuple[str, ...], tuple[str, ...]], joint: str, avoid: Collection[str]) -> str:
        for _ in range(_TRIES):
            words = [self._rng.choice(deck) for deck in decks]
            name = joint.join(words) if joint else "".join(word.title() for word in words)
            if name not in self.drawn and not any(word in avoid for word in words):
                self.drawn.add(name)
                return name
        raise ConfigError("too many names in one haystack; ask fewer questions about it")
