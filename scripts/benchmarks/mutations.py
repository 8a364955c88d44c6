"""Breaks YAML files as people, editors and disks do, and as somebody would who means harm."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import yaml

_DEEP = 5_000
HOSTILE = (
    "!!int x", "!!float x", "!!bool x", "!!timestamp x", "!!binary '*'", "!!set {a, b}", "!!omap [a: 1]", "!!null x",
    "!!python/object/apply:os.getcwd []", "!unknown x", "2024-13-45", "2024-01-02", "2024-01-02T25:61:61Z",
    "9" * 5_000, "-" + "9" * 400, "0x" + "f" * 20_000, "0b" + "1" * 9_000, "1:59:59:59", "1e999", "1e308", "-1e308",
    ".nan", ".inf", "-.inf", "-1", "-0.0", "0", "1", "2", "1.5", "1e-320", "yes", "off", "~", "", "''", "[]", "{}",
    "[[]]", "{a: {b: [c]}}", "[1, two, {3: 4}]", "*nowhere", "&a [*a]", "&a {<<: *a}", "{<<: [1]}", "{=: x}",
    "{? [a]: b}", "{1: x, true: y, null: z}", '"\\ud800"', '"\\0"', '"\\x1b[2J\\u202e"', "'\u202e\u2028\x85'",
    "x" * 300, "x" * 5_000, "/" + "x/" * 3_000, "~nobody-here/x", "~", "/dev/zero", "/dev/null", "/proc/self/mem",
    ".", "..", "/", "\\", "%s%n", "{{ x }}", "{% for x in range(9**9) %}{% endfor %}", "{{ 'x' * 10**9 }}", "lm_eval:", "http://[",
    "16m", "99999999999999999999k", "1k1", "bf16", "fp8", "[" * 50 + "]" * 50, "[" * _DEEP + "]" * _DEEP, "[" * _DEEP,
    "{a: " * _DEEP, "- " * _DEEP, "!!str 1", "|", ">-", "# no value", "@", "`", "%YAML 9.9", "--- a\n--- b", "...",
)  # fmt: skip
_BOMB = "".join(
    f"b{level}: &b{level} [{', '.join([f'*b{level - 1}' if level else 'lol'] * 9)}]\n" for level in range(12)
)
_BYTES = (
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r",
    b"\t",
    b"\x1b",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\n\n",
)


def mutate(text: str, others: Sequence[str], random_: random.Random) -> bytes:
    """Returns `text` with one to three mutations. `others` are files to take pieces from."""
    for _ in range(random_.choice((1, 1, 1, 2, 3))):
        text = random_.choice(_OF_TEXT)(text, others, random_)
    content = text.encode("utf-8", "surrogatepass")
    return _of_bytes(content, random_) if random_.random() < 0.1 else content


def _of_bytes(content: bytes, random_: random.Random) -> bytes:
    at = random_.randrange(len(content) + 1)
    return content[:at] + random_.choice(_BYTES) + content[at + random_.randrange(2) :]


def _value(text: str, _: Sequence[str], random_: random.Random) -> str:
    """Replaces what stands after a colon or a dash."""
    lines = text.split("\n")
    at = random_.randrange(len(lines))
    for mark in random_.sample((": ", "- "), 2):
        if mark in lines[at]:
            lines[at] = lines[at].split(mark, 1)[0] + mark + random_.choice(HOSTILE)
            break
    return "\n".join(lines)


def _node(text: str, _: Sequence[str], random_: random.Random) -> str:
    """Replaces a value somewhere in the tree, and writes the file anew."""
    if _BOMB in text:  # its tree has billions of places
        return _value(text, _, random_)
    try:
        tree = yaml.safe_load(text)
        places = list(_places(tree))
        holder, key = random_.choice(places)
        marker = "mutated-here"
        holder[key] = random_.choice(
            (marker, marker, [holder[key]], {"x": holder[key]}, None, str(holder[key]), -1, True)
        )
        return yaml.safe_dump(tree, sort_keys=False).replace(marker, random_.choice(HOSTILE))
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return _value(text, _, random_)


def _places(tree: Any) -> Any:
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in list(keys):
        yield tree, key
        yield from _places(tree[key])


def _line(text: str, others: Sequence[str], random_: random.Random) -> str:
    """Deletes, repeats, moves, indents or borrows a line."""
    lines = text.split("\n")
    at, to = random_.randrange(len(lines)), random_.randrange(len(lines))
    what = random_.randrange(6)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(to, lines[at])
    elif what == 2:
        lines[at], lines[to] = lines[to], lines[at]
    elif what == 3:
        lines[at] = " " * random_.randrange(1, 9) + lines[at]
    elif what == 4:
        lines[at] = lines[at].lstrip()
    else:
        lines.insert(to, random_.choice(random_.choice(others).split("\n")))
    return "\n".join(lines)


def _character(text: str, _: Sequence[str], random_: random.Random) -> str:
    at = random_.randrange(len(text) + 1)
    return text[:at] + random_.choice("[]{}:-?,&*!|>'\"%@`#~ \t\n\x00\u202e9") + text[at + random_.randrange(3) :]


def _cut(text: str, _: Sequence[str], random_: random.Random) -> str:
    return text[: random_.randrange(len(text) + 1)]


def _key(text: str, _: Sequence[str], random_: random.Random) -> str:
    words = [word for word in text.replace("\n", " ").split(" ") if word.endswith(":")] or ["model:"]
    new = random_.choice(
        ("x:", "1:", "true:", "? :", "<<:", "=:", "'':", "~:", "model:", "tasks:", "name:", "endpoint:")
    )
    return text.replace(random_.choice(words), new, 1)


def _bomb(text: str, _: Sequence[str], random_: random.Random) -> str:
    key = random_.choice(("tasks", "variants", "chat_template_kwargs", "model", "metadata", "x"))
    return f"{_BOMB}{text}\n{key}: {random_.choice(('*b11', '{<<: *b11}', '[*b11]', '{x: *b11}'))}\n"


def _long(text: str, _: Sequence[str], random_: random.Random) -> str:
    more = random_.choice(("# comment\n", "x: 1\n", "- x\n", "[],", "a: &a b\n", "  - {a: 1}\n", "\n", "'"))
    return text + more * random_.choice((100, 3_000, 40_000))


_Mutation = Callable[[str, Sequence[str], random.Random], str]
_OF_TEXT: tuple[_Mutation, ...] = (
    _value, _value, _value, _node, _node, _node, _line, _line, _character, _cut, _key, _key, _bomb, _long
)  # fmt: skip
