"""Whether an output about source code is right. Code is case-sensitive; how an answer is worded or marked up is not.

Metrics are in [0, 1], higher is better; ``score`` decides. ``valid`` is 0 where the output is no code at all.
"""

from __future__ import annotations

import ast
import difflib
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from kveval.tasks.scoring import sandbox
from kveval.tasks.scoring.text import CODE
from kveval.tasks.scoring.thinking import answer_of

NORMALIZER = CODE

_PATH = re.compile(r"(?<![\w./-])[\w./-]*/[\w./-]+|\b\w+\.py\b")
_PREFIX = re.compile(r"\b(?:\w+(?:\.|::|#))+(?=\w*[^\W_]_)")
_ARGUMENTS = re.compile(r"(?<=\w)\([^()]*\)")
_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_BEGINS_CODE = re.compile(r"[ \t]*(?:(?:def|async def|class|import|from)\b|@|[A-Za-z_]\w*(?:\s*:\s*[^\s=]+)?\s*=(?!=))")
_GOES_ON = re.compile(
    r"\s|#|[)\]}]|@|(?:def|async|class|import|from|if|for|while|try|with|return)\b|[\w.\[\]]+(?:\s*:\s*[^\s=]+\s*=|\s*[=(])"
)
_LONGEST_SIGNATURE = 600
_PAIRS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def value_named(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """1 when the answer names the asked name, number or string, and no other planted one.

    Quotes, markdown, ``@``, and module prefixes make no difference; numbers compare by value, sign and decimals
    included.
    """
    answer = answer_of(results[0])
    right = NORMALIZER.names(answer, doc["answers"][0]) and not _names_any(answer, doc["distractors"])
    return {"score": float(right)}


def function_named(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """1 when the first function the answer names is the asked one, and it names no other planted one.

    Words with an underscore count as names of functions, unless they are arguments, files or words of the question, or
    name a module or class.
    """
    answer = answer_of(results[0])
    bare = _PREFIX.sub("", _ARGUMENTS.sub("", _PATH.sub("", NORMALIZER.plain(answer))))
    known = set(NORMALIZER.words(doc["question"]))
    names = (word for word in NORMALIZER.words(bare) if "_" in word.strip("_") and word.islower())
    first = next((name for name in names if name not in known), None)
    right = first == doc["answers"][0] and not _names_any(answer, doc["distractors"])
    return {"score": float(right)}


def line_completed(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Whether a signature is completed exactly, and how nearly.

    ``score``
        1 when parameters, their order and their default values are the reference's. Whitespace, kind of quotes, a
        trailing comma, a repeated beginning of the line and what follows the signature make no difference.
    ``edit_similarity``
        `difflib`'s ratio of the two without whitespace.
    """
    written = _signature(answer_of(results[0]), doc["answer_lead"])
    wanted = _signature(doc["answers"][0], doc["answer_lead"])
    parsed = _canonical(written)
    similarity = difflib.SequenceMatcher(None, _dense(written), _dense(wanted), autojunk=False).ratio()
    return {
        "score": float(parsed is not None and parsed == _canonical(wanted)),
        "edit_similarity": similarity,
        "valid": float(parsed is not None),
    }


def program_passes(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """1 when the written function returns what each test expects, run in the sandbox.

    ``tests_passed`` is the share of tests; ``valid`` is 0 when the output holds no function that Python can read.

    Raises:
        PlanError, InfrastructureError: the sandbox could not run; see `kveval.tasks.scoring.sandbox.call`.
    """
    tests = json.loads(doc["tests"])
    source = program_of(results[0], "solve", doc["answer_lead"])
    if source is None:
        return {"score": 0.0, "tests_passed": 0.0, "valid": 0.0}
    program = sandbox.Program(source, "solve", {doc["module"]: doc["helper"]})
    returned = sandbox.call(program, [[test["values"]] for test in tests])
    passed = [_same(result, test["returns"]) for result, test in zip(returned, tests, strict=True)]
    unreadable = any((result.error or "").startswith(("SyntaxError", "IndentationError")) for result in returned)
    return {
        "score": float(all(passed)),
        "tests_passed": sum(passed) / len(passed),
        "valid": float(not unreadable),
    }


def program_of(text: str, function: str, lead: str = "") -> str | None:
    """The code in an output: the last fenced block that defines the function, else the lines that look like code.

    Args:
        lead: what the model was given to continue, ending with the function's first line; an output that defines
            nothing is read as what follows it.

    Returns:
        None when there is nothing to run.
    """
    text = answer_of_code(text)
    defines = re.compile(rf"^[ \t]*def {function}\(", re.MULTILINE)
    fenced = [block for block in _FENCED.findall(text) if defines.search(block)]
    if fenced:
        return textwrap.dedent(fenced[-1])
    if defines.search(text):
        return textwrap.dedent(_lines_of_code(text.split("\n"), defines))
    begins = lead.rpartition("```python\n")[2]
    body = text.split("```")[0]
    return f"{begins}{body}" if begins and body.strip() and body[:1].isspace() else None


def answer_of_code(text: str) -> str:
    """The output without its thinking, its first indentation kept."""
    answer = answer_of(text)
    before = text[: text.rfind(answer)] if answer else ""
    return before[len(before.rstrip()) :] + answer


def _lines_of_code(lines: Sequence[str], defines: re.Pattern[str]) -> str:
    """From the first line that may begin code and does, with what follows it; prose can look as if it began some."""
    found = []
    for first in (i for i, line in enumerate(lines) if _BEGINS_CODE.match(line)):
        found.append(_block(lines[first:], defines))
        if defines.match(lines[first]) or (defines.search(found[-1]) and _parses(found[-1])):
            break
    return found[-1]


def _block(lines: Sequence[str], defines: re.Pattern[str]) -> str:
    """The lines of code from the first on; prose ends them once the function is defined."""
    margin = len(lines[0]) - len(lines[0].lstrip())
    taken: list[str] = []
    defined = False
    for line in lines:
        if line.strip() and not _GOES_ON.match(line[margin:]):
            if defined:
                break
            continue
        defined = defined or bool(defines.match(line))
        taken.append(line)
    return "\n".join(taken)


def _parses(source: str) -> bool:
    try:
        ast.parse(textwrap.dedent(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _names_any(answer: str, values: Sequence[str]) -> bool:
    return any(NORMALIZER.names(answer, value) for value in values)


def _signature(text: str, line: str) -> str:
    """What stands between the parentheses of a signature whose beginning may be repeated."""
    blocks = _FENCED.findall(text)
    text = (blocks[0] if blocks else text).replace(r"\_", "_").strip()
    dense = re.compile(r"\s*".join(re.escape(part) for part in re.findall(r"\w+|\(", line)))
    repeated = list(dense.finditer(text))
    if repeated:
        return _to_its_end(text[repeated[-1].end() :])
    # In a sentence, the line is the code in backticks.
    ends = (_to_its_end(part) for part in re.split("`+", text) if ")" in part)
    return next((end for end in ends if _canonical(end) is not None), _to_its_end(text.strip("`").strip()))


def _to_its_end(text: str) -> str:
    """What stands before the parenthesis that closes a signature, or else the first line."""
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


def _canonical(arguments: str) -> str | None:
    if len(arguments) > _LONGEST_SIGNATURE:
        return None
    try:
        node = ast.parse(f"def f({arguments}\n): pass").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return ast.unparse(node[0].args) if len(node) == 1 and isinstance(node[0], ast.FunctionDef) else None


def _dense(text: str) -> str:
    return "".join(text[:_LONGEST_SIGNATURE].split())


def _same(result: sandbox.Returned, expected: list[int]) -> bool:
    value = result.value
    return isinstance(value, list) and all(type(item) is int for item in value) and value == expected
