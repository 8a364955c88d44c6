"""Makes up what is planted in code: names and numbers, links of call chains, and helpers with arithmetic.

No library has them and nobody can guess them, so a model must read to know them.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kveval.errors import ConfigError
from kveval.tasks.corpora.source_code import Excerpt
from kveval.tasks.corpora.words import ADJECTIVES, NOUNS

_VERBS = (
    "adjust", "align", "apply", "arrange", "attach", "blend", "bundle", "carry", "clean", "collect", "convert", "count",
    "expand", "fold", "gather", "handle", "inspect", "merge", "mix", "order", "pack", "polish", "press", "push",
    "raise", "reduce", "repair", "rotate", "settle", "shift", "sort", "split", "stack", "sweep", "trace", "trim",
    "turn", "unfold", "weigh", "wrap",
)  # fmt: skip
_TRIES = 200


class MadeUpNames:
    """Draws names and numbers, none twice. `drawn` has everything drawn so far."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.drawn: set[str] = set()

    def function(self, avoid: Collection[str] = ()) -> str:
        """Draws a name such as ``merge_lantern``, without the lower-case words in `avoid`."""
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


_ARGUMENTS = ("request", "value", "items", "options", "node", "queryset")
_LINKS = (
    "    return {callee}({argument})",
    "    result = {callee}({argument})\n    return result",
    "    with transaction.atomic():\n        return {callee}({argument})",
    "    if {argument} is None:\n        {argument} = []\n    return {callee}({argument})",
)
_ENDS = (
    "    return {value}",
    "    result = {value}\n    return result",
    "    with transaction.atomic():\n        return {value}",
    "    if {argument} is None:\n        {argument} = []\n    return {value}",
)
_MEASURES = ("tariff", "levy", "surcharge", "quota", "premium", "rating", "deposit", "allowance", "penalty", "rebate")
_MEANINGS = ("weight", "distance", "season", "volume", "age", "rank", "height", "depth", "speed", "charge")


def draw_path(paths: Sequence[str], rng: random.Random) -> str:
    """Draws a made-up file in a real folder of the package."""
    return f"{posixpath.dirname(rng.choice(paths))}/{rng.choice(NOUNS)}.py"


def chain(names: Sequence[str], value: str, paths: Sequence[str], rng: random.Random) -> list[Excerpt]:
    """Makes functions, each of which calls the next; the last returns `value`."""
    excerpts = []
    for name, callee, path in zip(names, [*names[1:], None], paths, strict=True):
        argument = rng.choice(_ARGUMENTS)
        body = rng.choice(_LINKS if callee else _ENDS).format(callee=callee, argument=argument, value=value)
        excerpts.append(Excerpt(path, None, f"def {name}({argument}):\n{body}"))
    return excerpts


@dataclass(frozen=True, slots=True)
class Helper:
    """A function of three whole numbers with random constants.

    Attributes:
        subject: what its docstring says it returns. The question calls it by this.
        parameters: names in the order of the signature.
        meanings: what each parameter is, in the same order. The question calls them by these.
        positional: how many parameters may be given by position, from 1; the rest by name only.
        factors: of the parameters in the sum.
        modulus, remainder, step: when the sum modulo `modulus` is above `remainder`, `step` is taken off.
    """

    path: str
    name: str
    subject: str
    parameters: tuple[str, ...]
    meanings: tuple[str, ...]
    positional: int
    factors: tuple[int, ...]
    modulus: int
    remainder: int
    step: int

    @classmethod
    def draw(cls, subject: str, path: str, made_up: MadeUpNames, rng: random.Random) -> Helper:
        modulus = rng.randrange(5, 12)
        return cls(
            path,
            made_up.function(avoid=subject.split()),
            subject,
            tuple(made_up.variable() for _ in range(3)),
            tuple(rng.sample(_MEANINGS, 3)),
            rng.randrange(1, 4),
            tuple(rng.sample(range(11, 100), 3)),
            modulus,
            rng.randrange(1, modulus - 2),
            rng.randrange(101, 1000),
        )

    @property
    def module(self) -> str:
        """Returns the dotted name of its file."""
        return self.path.removesuffix(".py").replace("/", ".")

    def source(self) -> str:
        signature = list(self.parameters)
        if self.positional < len(signature):
            signature.insert(self.positional, "*")
        total = " + ".join(f"{name} * {factor}" for name, factor in zip(self.parameters, self.factors, strict=True))
        roles = [f"{name} ({meaning})" for name, meaning in zip(self.parameters, self.meanings, strict=True)]
        return (
            f"def {self.name}({', '.join(signature)}):\n"
            f'    """Return the {self.subject} of {roles[0]}, {roles[1]} and {roles[2]}."""\n'
            f"    total = {total}\n"
            f"    if total % {self.modulus} > {self.remainder}:\n"
            f"        total -= {self.step}\n"
            f"    return total"
        )

    def __call__(self, *values: int) -> int:
        """Computes what the source computes, from values in the order of the signature."""
        total = sum(value * factor for value, factor in zip(values, self.factors, strict=True))
        return total - self.step if total % self.modulus > self.remainder else total

    def call(self, arguments: Sequence[str]) -> str:
        """Writes a call in Python, from arguments in the order of the signature."""
        parts = [
            argument if i < self.positional else f"{name}={argument}"
            for i, (name, argument) in enumerate(zip(self.parameters, arguments, strict=True))
        ]
        return f"{self.name}({', '.join(parts)})"


def subjects(count: int, rng: random.Random) -> list[str]:
    """Draws subjects such as ``lantern tariff``, none twice."""
    return rng.sample([f"{noun} {measure}" for noun in NOUNS for measure in _MEASURES], count)
