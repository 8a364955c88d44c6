"""Text of models, engines and users made safe to look at: what is unseen or moves other text is spelled out."""

from __future__ import annotations

import re
import unicodedata

# Bidirectional controls, zero-width characters and the byte order mark are category Cf; C0 and C1 controls Cc; lone
# surrogates Cs; private use Co; line and paragraph separators Zl and Zp.
_SPELLED = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_KEPT = {"\n", "\t"}
_SUSPECT = re.compile(r"[^\t\n\x20-\x7e]")


def visible(text: str) -> str:
    """`text` with every control, format, surrogate and private character written as ``⟨U+202E⟩``."""
    return _SUSPECT.sub(lambda match: _spell(match[0]), text)


def shortened(text: str, limit: int) -> tuple[str, int]:
    """(the first `limit` characters, how many were left out)."""
    return text[:limit], max(0, len(text) - limit)


def _spell(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _SPELLED:
        return character
    return f"⟨U+{ord(character):04X}⟩"
