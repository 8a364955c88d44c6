"""Removes a model's thinking from its output."""

from __future__ import annotations

import re

_TAG = r"(?:think(?:ing)?|thought|reasoning)"
_THINKING = re.compile(rf"^.*</{_TAG}>|<{_TAG}>.*$", re.DOTALL | re.IGNORECASE)


def answer_of(output: str) -> str:
    """Returns the output without its thinking, stripped of surrounding white space.

    A block that never closes is all thinking. A chat template may open the block in the prompt, so everything before
    the last closing tag is thinking too.
    """
    return _THINKING.sub("", output).strip()
