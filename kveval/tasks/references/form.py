"""How a task's YAML says what its right answers look like: ``metadata.reference``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Self

from jinja2 import Template, TemplateSyntaxError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from kveval.config.messages import explain
from kveval.errors import ConfigError
from kveval.tasks.references.reference import FORMAT, Piece, Unit
from kveval.tasks.templates import TemplateEnvironment

LEAD = "lead"
ENTRIES = "entries"
JSON = "json"
CALLS = "calls"
_TEMPLATES = TemplateEnvironment()

Pieces = Annotated[list[dict[str, str]], Field(min_length=1)]


class ReferenceForm(BaseModel):
    """What ``metadata.reference`` of a task may say. All texts are jinja2 templates over the sample's document.

    Attributes:
        none: why the task has no reference. No other key then stands beside it.
        unit: what the expected score counts.
        text: the pieces of the reference, each ``{key: template}``. ``lead`` is forced and not scored. ``entries`` is
            rendered for every answer as ``entry``. ``json`` is a JSON text and ``calls`` a JSON list of calls; their
            values are told from their format. Any other key names a part that is scored.
        joints: what stands between entries, and before the last.
        any_order: the entries, or the items of the JSON array, are right in any order.
        contrast: the pieces of a wrong answer, used where the right one is to abstain.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    none: str | None = None
    unit: Unit | None = None
    text: Pieces | None = None
    joints: tuple[str, str] = (", ", ", and ")
    any_order: bool = False
    contrast: Pieces | None = None

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self | None:
        """Reads the form from a task's metadata. Returns None if it says nothing about references.

        Raises:
            ConfigError: names the key, the value and what to use instead.
        """
        if "reference" not in metadata:
            return None
        declared = metadata["reference"]
        try:
            return cls.model_validate(declared)
        except ValidationError as error:
            raise ConfigError(f"metadata.reference: {explain(error, cls)}") from error

    @field_validator("text", "contrast")
    @classmethod
    def _can_be_read(cls, pieces: list[dict[str, str]] | None) -> list[dict[str, str]] | None:
        for piece in pieces or ():
            if len(piece) != 1 or FORMAT in piece:
                raise ValueError(f"{piece!r}; use one key other than {FORMAT!r} with its text, as in {{answer: text}}")
            try:
                _template(*piece.values())
            except TemplateSyntaxError as error:
                raise ValueError(f"{piece!r} is not a jinja2 template ({error}); use {{{{field}}}}") from error
        return pieces

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.none is not None:
            if self.model_fields_set != {"none"}:
                raise ValueError("none: with other keys beside it; use none alone, or unit and text")
            return self
        if self.unit is None or self.text is None:
            raise ValueError("unit, text: not both given; use both, or none with a reason")
        keys = [key for piece in self.text for key in piece]
        if all(key == LEAD for key in keys):
            raise ValueError("text: has leads only; use a piece that is scored, such as {answer: text}")
        if (self.unit == "entries") != (ENTRIES in keys):
            raise ValueError("text: the piece entries and unit entries go together; use both or neither")
        if self.any_order and not {ENTRIES, JSON} & set(keys):
            raise ValueError("any_order: true without entries or json in text; use it with one of them")
        return self


def rendered(pieces: Pieces, doc: Mapping[str, Any]) -> Iterator[Piece]:
    """Renders pieces for one sample. A piece's key becomes its part.

    Raises:
        jinja2.TemplateError: a template names a field that the document lacks, or does what it may not.
    """
    for piece in pieces:
        for key, text in piece.items():
            yield Piece(_template(text).render(doc), None if key == LEAD else key)


@lru_cache(maxsize=256)
def _template(text: str) -> Template:
    return _TEMPLATES.from_string(text)
