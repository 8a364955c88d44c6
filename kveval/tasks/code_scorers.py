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

from kveval.tasks import sandbox
from kveval.tasks.scorers import answer_of

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d+)?")
_THOUSANDS = re.compile(r"(?<=\d)[_,](?=\d{3}(?!\d))")
_PATH = re.compile(r"[\w./-]*/[\w./-]+|\b\w+\.py\b")
_ARGUMENTS = re.compile(r"(?<=\w)\([^()]*\)")
_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_BEGINS_CODE = re.compile(r"[ \t]*(?:def|async def|class|import|from|@)\b|[ \t]*@")
_GOES_ON = re.compile(r"\s|#|[)\]}]|@|(?:def|async|class|import|from|if|for|while|try|with|return)\b|[\w.\[\]]+\s*[=(]")
_LONGEST_SIGNATURE = 600
_PAIRS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def value_named(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """1 when the answer names the asked name, number or string, and no other planted one.

    Quotes, backticks, ``@``, and module prefixes make no difference; numbers compare by value.
    """
    tokens = _tokens(answer_of(results[0]))
    right = _named(tokens, doc["answers"][0]) and not any(_named(tokens, value) for value in doc["distractors"])
    return {"score": float(right)}


def function_named(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """1 when the first function the answer names is the asked one, and it names no other planted one.

    Words with an underscore count as names of functions, unless they are arguments, files or words of the question.
    """
    text = answer_of(results[0])
    tokens = _tokens(text)
    bare = _ARGUMENTS.sub("", _PATH.sub("", text))
    known = set(_tokens(doc["question"]))
    first = next((token for token in _tokens(bare) if "_" in token.strip("_") and token not in known), None)
    right = first == doc["answers"][0] and not any(_named(tokens, value) for value in doc["distractors"])
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
        PlanError, InfrastructureError: the sandbox could not run; see `kveval.tasks.sandbox.call`.
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
        return textwrap.dedent(_lines_of_code(text))
    begins = lead.rpartition("```python\n")[2]
    body = text.split("```")[0]
    return f"{begins}{body}" if begins and body.strip() and body[:1].isspace() else None


def answer_of_code(text: str) -> str:
    """The output without its thinking, its first indentation kept."""
    answer = answer_of(text)
    before = text[: text.rfind(answer)] if answer else ""
    return before[len(before.rstrip()) :] + answer


def _lines_of_code(text: str) -> str:
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if _BEGINS_CODE.match(line))
    margin = len(lines[first]) - len(lines[first].lstrip())
    taken = []
    for line in lines[first:]:
        if line.startswith("```") or (line.strip() and not _GOES_ON.match(line[margin:])):
            break
        taken.append(line)
    return "\n".join(taken)


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_THOUSANDS.sub("", text))


def _named(tokens: Sequence[str], reference: str) -> bool:
    wanted = _tokens(reference)
    size = len(wanted)
    return bool(wanted) and any(
        all(_equal(one, other) for one, other in zip(tokens[i : i + size], wanted, strict=True))
        for i in range(len(tokens) - size + 1)
    )


def _equal(token: str, wanted: str) -> bool:
    return token == wanted or (token[0].isdigit() and wanted[0].isdigit() and float(token) == float(wanted))


def _signature(text: str, line: str) -> str:
    """What stands between the parentheses of a signature whose beginning may be repeated."""
    blocks = _FENCED.findall(text)
    text = (blocks[0] if blocks else text).strip().strip("`").strip()
    dense = re.compile(r"\s*".join(re.escape(part) for part in re.findall(r"\w+|\(", line)))
    repeated = list(dense.finditer(text))
    if repeated:
        text = text[repeated[-1].end() :]
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
