"""Tells the values of a JSON text from the format around them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from kveval.tasks.references.reference import FORMAT, Piece

VALUE = "value"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}]')
_KEY = re.compile(r"\s*:")
_ENDS = re.compile(r"\s*[,\]}]")


def json_pieces(text: str, format_keys: Container[str] = ()) -> tuple[Piece, ...]:
    """Cuts a JSON text into values and format.

    A value is a string, number, true, false or null, with the delimiter behind it: only the delimiter shows that a
    number ends. The keys of the outermost objects are format, because a schema gives them. Deeper keys, such as the
    names of a call's arguments, are values.

    Args:
        format_keys: keys of the outermost objects whose values are format too.
    """
    return tuple(piece for piece in _pieces(text, format_keys) if piece.text)


def _pieces(text: str, format_keys: Container[str]) -> Iterator[Piece]:
    depth, at, outermost = 0, 0, ""
    for match in _TOKEN.finditer(text):
        if match[0] in "{}":
            depth += 1 if match[0] == "{" else -1
            continue
        key = _KEY.match(text, match.end())
        if key and depth <= 1:
            outermost = match[0].strip('"')
            continue
        if depth <= 1 and outermost in format_keys:
            continue
        end = key or _ENDS.match(text, match.end())
        yield Piece(text[at : match.start()], FORMAT)
        at = end.end() if end else match.end()
        yield Piece(text[match.start() : at], VALUE)
    yield Piece(text[at:], FORMAT)
