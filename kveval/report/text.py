"""Makes text of models, engines and users safe to look at: spells out what cannot be seen or moves other text."""

from __future__ import annotations

from markupsafe import Markup, escape

from kveval.terminal import SUSPECT, is_spelled, spell, visible

__all__ = ["exact", "shortened", "visible"]


def exact(text: str) -> Markup:
    """Returns `visible` as HTML. Spelled characters carry their code, so that the page can copy the original text."""
    parts, end = [], 0
    for match in SUSPECT.finditer(text):
        if is_spelled(match[0]):
            parts.append(escape(text[end : match.start()]))
            parts.append(Markup('<span class="u" data-u="{:X}">{}</span>').format(ord(match[0]), spell(match[0])))
            end = match.end()
    parts.append(escape(text[end:]))
    return Markup("").join(parts)


def shortened(text: str, limit: int) -> tuple[str, int]:
    """Returns (the first `limit` characters, how many were left out)."""
    return text[:limit], max(0, len(text) - limit)
