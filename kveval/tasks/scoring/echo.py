"""Tells an answer from a repetition of the question.

"..., yes or no? Answer yes or no." names every answer, and says none. An answer in the words of a question is no echo:
"The tower is in Paris." to "Which is right: the tower is in Paris, or the tower is in London?" stays within one choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?:[.!?。！？](?=\s|\Z)|\n)\s*")
_OR = frozenset(("or", "oder", "ou", "или", "або", "eller"))
_SLASH = re.compile(r"[/|]")
_LIST = re.compile(r"[,;:]")
_LEAST_WORDS = 3
# A question may be followed by how to answer it, but not by a document.
_LONGEST_AFTER_QUESTION = 200


def question_in(text: str) -> str:
    """Returns what the end of a prompt asks: its last question with what follows, or else its last sentence."""
    text = text.rstrip()
    bounds = [0, *(match.end() for match in _SENTENCE.finditer(text) if match.end() < len(text)), len(text)]
    starts = [bounds[i] for i in range(len(bounds) - 1) if re.search(r"[?？]", text[bounds[i] : bounds[i + 1]])]
    ends = {bounds[i]: bounds[i + 1] for i in range(len(bounds) - 1)}
    if starts and len(text) - ends[starts[-1]] <= _LONGEST_AFTER_QUESTION:
        return text[starts[-1] :]
    return text[bounds[-2] :]


def without_echo(answer: str, prompt_end: str, references: Iterable[str]) -> str:
    """Returns the answer without what it repeats of the question beyond one of the choices in it.

    Args:
        prompt_end: the end of the prompt. A sentence of it before the question may be repeated: it may be the source.
        references: what an answer may repeat, whatever it looks like.
    """
    said, asked = _words(answer), _words(prompt_end)
    allowed = [_folded(reference) for reference in references]
    asks_from = len(_words(prompt_end[: len(prompt_end.rstrip()) - len(question_in(prompt_end))]))
    places: dict[str, list[int]] = {}
    for place, word in enumerate(asked):
        places.setdefault(word.text, []).append(place)
    kept: list[str] = []
    at = start = 0
    while start < len(said):
        run = _longest_run(said, start, asked, places.get(said[start].text, ()))
        if run and _is_echo(run, asked, prompt_end, asks_from, allowed):
            kept.append(answer[at : said[start].start])
            at = said[start + run.length - 1].end
            if run.first <= 1 and prompt_end.startswith("…"):
                kept.clear()  # The beginning of the prompt is not known here, but it was repeated too.
        start += run.length if run else 1
    return "\n".join([*kept, answer[at:]])


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Run:
    """Words of an answer that stand in the prompt one after the other, from its word `first` on."""

    first: int
    length: int


def _words(text: str) -> list[_Word]:
    return [_Word(match[0].casefold(), match.start(), match.end()) for match in _WORD.finditer(text)]


def _folded(text: str) -> list[str]:
    return [word.text for word in _words(text)]


def _longest_run(said: Sequence[_Word], start: int, asked: Sequence[_Word], places: Sequence[int]) -> _Run | None:
    """Returns the longest run that begins with a word of the answer, given the word's places in the prompt.

    Of equal ones it is the last in the prompt.
    """
    best: _Run | None = None
    for first in places:
        pairs = zip(said[start : start + len(asked)], asked[first:], strict=False)
        length = sum(1 for _ in takewhile(lambda pair: pair[0].text == pair[1].text, pairs))
        if best is None or length >= best.length:
            best = _Run(first, length)
    return best


def _is_echo(
    run: _Run, asked: Sequence[_Word], prompt_end: str, asks_from: int, allowed: Sequence[Sequence[str]]
) -> bool:
    """Returns whether a run touches the question, and is all of it or goes from one choice or sentence into another."""
    words = asked[run.first : run.first + run.length]
    texts = [word.text for word in words]
    if run.length < 2 or run.first + run.length <= asks_from or texts in allowed:
        return False
    gaps = [prompt_end[one.end : other.start] for one, other in pairwise(words)]
    if any(word in _OR for word in texts) or any(_SLASH.search(gap) for gap in gaps):
        return True
    if sum(bool(_LIST.search(gap)) for gap in gaps) >= 2:
        return True
    if run.length < _LEAST_WORDS:
        return False
    before = prompt_end[asked[run.first - 1].end : words[0].start] if run.first else "\n"
    after = prompt_end[words[-1].end :]
    is_whole_question = bool(_SENTENCE.search(before)) and after.lstrip("\"')”’»").startswith(("?", "？"))
    crossed = [i for i, gap in enumerate(gaps) if _SENTENCE.search(f"{gap} ")]
    return is_whole_question or any(run.length - 1 - i >= 2 for i in crossed)
