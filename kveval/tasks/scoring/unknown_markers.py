"""Recognizes what may mark thinking, at the start of an output, when no table knows it."""

from __future__ import annotations

import re

_MARKER = re.compile(
    r"""
      \s* (?: <[|｜/]?[^<>\s]{1,40}>                                 # <reflect>, <|inner|>
          | \[[A-Z][A-Z_/\ ]{2,30}\] | ◁[^◁▷\n]{1,30}▷ | «[^«»\n]{1,30}»
          | [a-z]{4,20}(?=[A-Z])                                     # "analysisWe": special tokens were removed
          | (?i:here(?:['’]s|\ is)\ (?:my|the)\ [\w\ ]{1,30}:)
          | \W{0,4}\b(?i:think(?:ing)?|thoughts?|reasoning|analysis|reflections?|deliberation|scratchpad
            |chain\ of\ thought|(?:inner|internal)\ monologue)\b[^\n:]{0,20}(?:\W{0,4}\n|:) )
    """,
    re.VERBOSE,
)
# Calls, frames of an answer, and markup that a prompt may ask for.
_KNOWN = re.compile(
    r"\W*(?:\w*(?:tool|function|call|invoke)\w*|answer|response|output|result|final(?:_answer)?|conclusion|solution"
    r"|!?doctype|html|head|body|div|span|p|br|b|i|em|strong|code|pre|table|tr|td|ul|ol|li|svg|a|h[1-6]|\?xml|xml|json|s)\W*",
    re.IGNORECASE,
)


def marker_at_start(output: str) -> str | None:
    """Returns what an output begins with if that looks like a mark of thinking, else None."""
    match = _MARKER.match(output)
    if match is None or _KNOWN.fullmatch(match[0]):
        return None
    return match[0].strip()
