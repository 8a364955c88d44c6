"""The base class of task builders, and the haystack, needles and questions that a builder returns."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self

from kveval.errors import ConfigError
from kveval.tasks.builders.sources import Cut, TextSource
from kveval.tasks.sample import Chat

ChatForm = Literal["messages", "tools"]


@dataclass(frozen=True, slots=True)
class Needle:
    """Text to plant.

    Attributes:
        text: without white space around it.
        depth_percent: where to plant it, from 0 (start of the context) to 100 (end).
        lead: what separates it from the text before.
    """

    text: str
    depth_percent: float
    lead: str = " "


@dataclass(frozen=True, slots=True)
class Question:
    """One question about a haystack.

    Attributes:
        fields: the variables of the task's ``doc_to_text`` and ``gen_prefix``, without ``context``. JSON can hold them.
        answers: the right answers. The task's scorer decides whether an output must name all of them or any.
        needles: indexes of the needles that hold the answers.
        distractors: planted values that answer other questions.
        absent: the haystack does not hold the answer, and saying so is right.
    """

    fields: Mapping[str, Any]
    answers: tuple[str, ...]
    needles: tuple[int, ...] = ()
    distractors: tuple[str, ...] = ()
    absent: bool = False

    @classmethod
    def about(cls, fields: Mapping[str, Any], values: Sequence[str], *needles: int) -> Question:
        """Asks for the values of some needles; the values of all others are distractors. `values[i]` is needle i's."""
        others = tuple(value for i, value in enumerate(values) if i not in needles)
        return cls(fields, tuple(values[i] for i in needles), needles, others)


@dataclass(frozen=True, slots=True)
class Haystack:
    """What a builder decides about one context.

    Attributes:
        forbidden: strings, such as keys and values, that must not occur in the filler. Case does not matter.
        source: the builder's own filler, such as documents or code. None takes the text of the cell's haystack style.
        retell: changes the text of the haystack style before it is used.
        least_cut: the lowest kind of place where a needle may stand: between words, sentences or whole pieces.
    """

    needles: Sequence[Needle]
    questions: Sequence[Question]
    forbidden: frozenset[str] = frozenset()
    source: TextSource | None = None
    least_cut: Cut = Cut.WORD
    retell: Callable[[TextSource], TextSource] = lambda source: source


class Builder(ABC):
    """Plans the haystacks of a task: what to plant and what to ask. Subclass it as a frozen dataclass.

    The dataclass fields are the parameters that a task's YAML may set in ``metadata``. Each has a default, and the type
    of the default says what is allowed: a whole number from 1 for ``int``, a share from 0 to 1 for ``float``. Check
    anything else in ``__post_init__``, for instance with `check_choice`.
    """

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self:
        """Makes the builder of a task from its YAML's metadata. Fields that it does not name keep their defaults.

        Raises:
            ConfigError: a value of the wrong kind or out of range.
        """
        found = {field.name: field.default for field in fields(cls) if field.name in metadata}  # type: ignore[arg-type]
        return cls(**{name: _checked(name, metadata[name], type(default)) for name, default in found.items()})

    def most_questions(self, context_length: int) -> int | None:  # noqa: ARG002 (subclasses use it)
        """Says how many questions one context can hold; None for any number.

        Override it if the needles of a question are long. A cell that asks more gets more haystacks.
        """
        return None

    @abstractmethod
    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        """Plans one haystack.

        Args:
            numbers: the numbers of the samples in their cell. Ask one question for each.
            depth_shift: pass it to `depths_percent` or `evenly_spaced`. It differs between the haystacks of a cell, so
                that needles stand at other depths in each. In [0, 1).
            rng: the only source of randomness; seeded by task, context length, haystack index and seed.
        """


class ChatBuilder(Builder):
    """A builder that can also ask through a chat endpoint.

    Its filler must be an `kveval.tasks.builders.sources.ElasticSource`.

    Attributes:
        chat_form: what the context becomes, and so what the chat template must be able to render.
    """

    chat_form: ClassVar[ChatForm]

    @abstractmethod
    def chat(self, pieces: Sequence[str], fields: Mapping[str, Any]) -> Chat:
        """Makes the conversation of one question.

        Args:
            pieces: filler and needles in order, each one message, one exchange or one tool as text.
        """


def depths_percent(needles: int, depth_shift: float) -> list[float]:
    """Spaces depths evenly in [0, 100): needle k of K stands at 100 * (k + depth_shift) / K."""
    return [100 * (k + depth_shift) / needles for k in range(needles)]


def evenly_spaced(texts: Sequence[str], depth_shift: float, lead: str = " ") -> list[Needle]:
    """Makes one needle of each text, in this order, at the depths of `depths_percent`."""
    depths = depths_percent(len(texts), depth_shift)
    return [Needle(text, depth, lead) for text, depth in zip(texts, depths, strict=True)]


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raises ConfigError unless the value of the parameter `name` is one of `choices`."""
    if value not in choices:
        raise ConfigError(f"{name}={value!r}; use {' or '.join(choices)}")


def _checked(name: str, value: Any, kind: type) -> Any:
    if kind is int and (type(value) is not int or value < 1):
        raise ConfigError(f"{name}={value!r}; use a whole number from 1")
    if kind is float:
        if type(value) not in (int, float) or not 0 <= value <= 1:
            raise ConfigError(f"{name}={value!r}; use a number from 0 to 1")
        return float(value)
    return value
