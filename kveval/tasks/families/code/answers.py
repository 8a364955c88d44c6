"""Finds the program or the signature in an output, and compares signatures."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Sequence

from kveval.tasks.scoring.calls import statements_of
from kveval.tasks.scoring.reasoning import answer_in
from kveval.tasks.scoring.wording.denial import is_denied_before, without_denied

_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_BEGINS_CODE = re.compile(r"[ \t]*(?:(?:def|async def|class|import|from)\b|@|[A-Za-z_]\w*(?:\s*:\s*[^\s=]+)?\s*=(?!=))")
_CONTINUES_CODE = re.compile(
    r"\s|#|[)\]}]|@|(?:def|async|class|import|from|if|for|while|try|with|return)\b|[\w.\[\]]+(?:\s*:\s*[^\s=]+\s*=|\s*[=(])"
)


def fenced_blocks(text: str) -> list[str]:
    """Returns the contents of the markdown code blocks in a text; the last one may be unclosed."""
    return _FENCED.findall(text)


def program_of(text: str, function: str, lead: str = "") -> str | None:
    """Returns the last fenced block that defines a function, or else the lines that look like code; None if neither.

    Args:
        lead: text that the model had to continue; it ends with the function's first line. An output that does not
            define the function continues it.
    """
    text = answer_in(text).rstrip()
    defines = re.compile(rf"^[ \t]*def {function}\(", re.MULTILINE)
    if not defines.search(text):
        without_def = re.compile(rf"^([ \t]*)(?={function}\([^\n]*\)[^\n:]*:[ \t]*\n[ \t]+\S)", re.MULTILINE)
        text = without_def.sub(r"\1def ", text, count=1)
    fenced = [block for block in fenced_blocks(text) if defines.search(block)]
    if fenced:
        return textwrap.dedent(fenced[-1])
    if defines.search(text):
        return textwrap.dedent(_lines_of_code(text.split("\n"), defines))
    begins = lead.rpartition("```python\n")[2]
    body = text.split("```")[0]
    return f"{begins}{body}" if begins and body.strip() and body[:1].isspace() else None


def _lines_of_code(lines: Sequence[str], defines: re.Pattern[str]) -> str:
    """Returns the first block of code that defines the function. A line of prose can look like the start of code."""
    found = []
    for first in (i for i, line in enumerate(lines) if _BEGINS_CODE.match(line)):
        found.append(_block(lines[first:], defines))
        if defines.match(lines[first]) or (defines.search(found[-1]) and _is_python(found[-1])):
            break
    return found[-1]


def _block(lines: Sequence[str], defines: re.Pattern[str]) -> str:
    """Returns the lines of code from the first on; after the function is defined, the first line of prose ends them."""
    margin = len(lines[0]) - len(lines[0].lstrip())
    taken: list[str] = []
    defined = False
    for line in lines:
        if line.strip() and not _CONTINUES_CODE.match(line[margin:]):
            if defined:
                break
            continue
        defined = defined or bool(defines.match(line))
        taken.append(line)
    return "\n".join(taken)


def _is_python(source: str) -> bool:
    return statements_of(textwrap.dedent(source)) is not None


LONGEST_SIGNATURE_CHARACTERS = 600
_PAIRS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def signature_in(text: str, line: str) -> str:
    """Returns what an output writes between the parentheses of a signature. It may repeat `line`, the beginning."""
    blocks = fenced_blocks(text)
    text = (blocks[0] if blocks else text).replace(r"\_", "_").strip()
    # The line may be repeated without its first word, `def`.
    first, *rest = (re.escape(part) for part in re.findall(r"\w+|\(", line))
    dense = re.compile(rf"(?<!\w)(?:{first}\s+)?" + r"\s*".join(rest))
    repeated = [match for match in dense.finditer(text) if not is_denied_before(text, match.start())]
    if repeated:
        return _to_its_end(text[repeated[-1].end() :])
    # In a sentence, the line is the code in backticks.
    denied = without_denied(text) != text and "`" in text
    parts = [
        match for match in re.finditer("[^`]+", text) if ")" in match[0] and not is_denied_before(text, match.start())
    ]
    ends = (_to_its_end(_without_parenthesis(part[0])) for part in parts)
    whole = _to_its_end(_without_parenthesis(text.strip("`").strip()))
    return next((end for end in ends if canonical(end) is not None), "" if denied else whole)


def _without_parenthesis(text: str) -> str:
    """Returns a signature without the ``(`` that its line ends with already."""
    return text.lstrip().removeprefix("(") if text.lstrip().startswith("(") else text


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
