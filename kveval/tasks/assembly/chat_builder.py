"""What a builder and its source need beyond a `Builder` and a `TextSource` to be asked through a chat endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from kveval.tasks.assembly.filler import TextSource
from kveval.tasks.assembly.haystack import Builder
from kveval.tasks.task import Chat

ChatForm = Literal["messages", "tools"]


class ChatBuilder(Builder, Protocol):
    """A builder whose pieces can be messages or tools.

    Attributes:
        chat_form: what a context is made of, and so what the template must be able to render.
    """

    chat_form: ChatForm

    def chat(self, pieces: Sequence[str], fields: Mapping[str, Any]) -> Chat:
        """The conversation of these pieces of text and one question's fields."""
        ...


class ElasticSource(TextSource, Protocol):
    """A source whose pieces can be made longer or shorter."""

    def prose(self, index: int) -> str: ...

    def stretched(self, index: int, prose: str) -> str:
        """The piece with other prose in place of its own."""
        ...
