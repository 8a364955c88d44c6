"""Makes text of models, engines and users safe to look at: spells out what cannot be seen or moves other text."""

from __future__ import annotations

import re
import unicodedata

from markupsafe import Markup, escape

# Bidirectional controls, zero-width characters and the byte order mark are category Cf; C0 and C1 controls Cc; lone
# surrogates Cs; private use Co; line and paragraph separators Zl and Zp.
_SPELLED = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_KEPT = {"\n", "\t"}
_SUSPECT = re.compile(r"[^\t\n\x20-\x7e]")


def visible(text: str) -> str:
    """Returns `text` with every control, format, surrogate and private character written as ``⟨U+202E⟩``."""
    return _SUSPECT.sub(lambda match: _spell(match[0]), text)


def exact(text: str) -> Markup:
    """Returns `visible` as HTML. Spelled characters carry their code, so that the page can copy the original text."""
    parts, end = [], 0
    for match in _SUSPECT.finditer(text):
        if _is_spelled(match[0]):
            parts.append(escape(text[end : match.start()]))
            parts.append(Markup('<span class="u" data-u="{:X}">{}</span>').format(ord(match[0]), _spell(match[0])))
            end = match.end()
    parts.append(escape(text[end:]))
    return Markup("").join(parts)


def shortened(text: str, limit: int) -> tuple[str, int]:
    """Returns (the first `limit` characters, how many were left out)."""
    return text[:limit], max(0, len(text) - limit)


def _is_spelled(character: str) -> bool:
    return character not in _KEPT and unicodedata.category(character) in _SPELLED


def _spell(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩" if _is_spelled(character) else character
