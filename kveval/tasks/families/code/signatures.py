"""Finds the signature in an output, and compares signatures."""

from __future__ import annotations

import ast
import re

from kveval.tasks.families.code.programs import fenced_blocks
from kveval.tasks.scoring.python_source import statements_of

LONGEST_SIGNATURE_CHARACTERS = 600
_PAIRS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def signature_in(text: str, line: str) -> str:
    """Returns what an output writes between the parentheses of a signature.

    Args:
        line: the beginning of the signature, which the output may repeat.
    """
    blocks = fenced_blocks(text)
    text = (blocks[0] if blocks else text).replace(r"\_", "_").strip()
    dense = re.compile(r"\s*".join(re.escape(part) for part in re.findall(r"\w+|\(", line)))
    repeated = list(dense.finditer(text))
    if repeated:
        return _to_its_end(text[repeated[-1].end() :])
    # In a sentence, the line is the code in backticks.
    ends = (_to_its_end(part) for part in re.split("`+", text) if ")" in part)
    return next((end for end in ends if canonical(end) is not None), _to_its_end(text.strip("`").strip()))


def _to_its_end(text: str) -> str:
    """Returns everything before the parenthesis that closes a signature; the first line if none does."""
    depth, quote = 1, ""
    for i, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            depth += _PAIRS.get(character, 0)
        if depth == 0:
            return text[:i]
    return text.split("\n")[0].rstrip(":").strip()


def canonical(parameters: str) -> str | None:
    """Returns the parameters of a signature in one form of writing; None if Python cannot read them."""
    if len(parameters) > LONGEST_SIGNATURE_CHARACTERS:
        return None
    match statements_of(f"def f({parameters}\n): pass"):
        case [ast.FunctionDef(args=parsed)]:
            return ast.unparse(parsed)
    return None
