"""Finds whether an answer names its value as one of several, and so decides for none: "Rollo or Harald"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kveval.tasks.scoring.text import Normalizer

_SENTENCE = re.compile(r"(?<!\bvs)[.!?;](?=\s|\Z)|\n")
# "911 or so" says about when. A state that is written OR follows a comma: Portland, OR.
_OR = re.compile(
    r"""
    (?<!,\ OR)(?<=[\s,"'*`)\]\d\w])\s*
    (?:\b(?i:and/or|or|versus)\b|\bvs\b\.?|\s/\s|(?<=[^\W\d]{2})/(?=[^\W\d]{2}))
    (?!\s*(?:so|thereabouts|more|less|later|earlier|otherwise|rather|any\w*|something|not|also|alternatively)\b)
    """,
    re.VERBOSE,
)
_STATE = re.compile(r",\s+OR\b")
_PART = re.compile(r"[,:(]\s*|\b(?:is|was|are|were|be|either|named|called)\b", re.IGNORECASE)
# "Rollo, a Viking or Norseman" and "Rollo, who came in 911 or 912" describe one thing.
_DESCRIBES = re.compile(
    r"\s*(?:an?|who|whom|whose|which|that|where|when|also|born|known|in|on|at|from|of)\b", re.IGNORECASE
)
_FILLER = frozenset(
    """a an the maybe perhaps possibly probably likely even it is was be could might may by in at to of also""".split()  # noqa: SIM905
)
_HEDGE = re.compile(r"\b(?:maybe|perhaps|possibly|(?:might|could|may)\s+(?:also\s+)?be)\b", re.IGNORECASE)
_EITHER = re.compile(r"\beither\b", re.IGNORECASE)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)])\s+", re.MULTILINE)
_LISTED = re.compile(r"[,;|\n]\s*|\band\b")
_NO_CANDIDATE = re.compile(
    r":\s|\b(?:is|was|are|were|has|had|be|been|in|on|at|who|which|that|by|for|from|to|with|born|as)\b", re.IGNORECASE
)
_MOST_WORDS = 4
_LEAST_CANDIDATES = 3
_MOST_ALTERNATIVES = 8


def is_one_of_several(text: str, reference: str, normalizer: Normalizer, known: str = "") -> bool:
    """Returns whether a text gives a reference only as one of several candidates.

    They are joined by "or" or a slash, each is hedged ("maybe X, maybe Y"), or they are a list of nothing but names.
    An answer with a second reading, as in "Portland, OR" or "in 911 or so", still decides.

    Args:
        known: texts whose "or" an answer may repeat: the question and the reference.
    """
    if not re.search(r"\bor\b|/", f"{known} {reference}", re.IGNORECASE):
        sentences = [part for part in _SENTENCE.split(text) if normalizer.names(part, reference)]
        if any(_offers_another(sentence, reference, normalizer) for sentence in sentences):
            return True
    hedged = [part for part in re.split(r"[.,;!?\n]", text) if _HEDGE.search(part)]
    if len(hedged) > 1 and any(normalizer.names(part, reference) for part in hedged):
        return True
    return _is_bare_list(text, reference, normalizer)


def _offers_another(sentence: str, reference: str, normalizer: Normalizer) -> bool:
    alternations = list(_alternations(sentence))
    if len(alternations) > _MOST_ALTERNATIVES:
        return True
    for match in alternations:
        left, right = sentence[: match.start()], sentence[match.end() :]
        first = _PART.split(right.lstrip(" ,"))[0]
        words = normalizer.words(first)
        if not words:
            continue
        opens = [word for word in words if word not in _FILLER]
        wanted = normalizer.words(reference)
        other = next(_items_before(left, reference), "")
        if opens[: len(wanted)] == wanted and normalizer.words(other) and not normalizer.names(other, reference):
            return True
        if normalizer.names(first, reference):
            continue
        either = _EITHER.split(left)
        if len(either) > 1 and normalizer.names(either[-1], reference):
            return True
        if any(_ends_with(item, reference, normalizer) for item in _items_before(left, reference)):
            return True
    return False


def _alternations(sentence: str) -> Iterator[re.Match[str]]:
    states = {match.end() for match in _STATE.finditer(sentence)} if sentence != sentence.upper() else set()
    return (match for match in _OR.finditer(sentence) if match.end() not in states)


def _items_before(left: str, reference: str) -> Iterator[str]:
    """Yields the item before an "or", and those before it in the same list."""
    items = [item for item in _PART.split(left) if item.strip(" \"'*`")]
    for place, item in enumerate(reversed(items)):
        describes = _DESCRIBES.match(item) or (item.islower() and not reference.islower())
        if describes or (place and len(item.split()) > _MOST_WORDS):
            return
        yield item


def _ends_with(item: str, reference: str, normalizer: Normalizer) -> bool:
    words, wanted = normalizer.words(item), normalizer.words(reference)
    return bool(wanted) and words[-len(wanted) :] == wanted


def _is_bare_list(text: str, reference: str, normalizer: Normalizer) -> bool:
    """Returns whether a text is only a list of names, the right one among them. A place may follow its answer."""
    bullets = len(_BULLET.findall(text)) >= _LEAST_CANDIDATES
    items = [item for item in _LISTED.split(_BULLET.sub("", text)) if normalizer.words(item)]
    if len(items) < _LEAST_CANDIDATES or len(_LISTED.split(reference)) > 1:
        return False
    if any(_NO_CANDIDATE.search(item) or len(item.split()) > _MOST_WORDS for item in items):
        return False
    named = [normalizer.names(item, reference) for item in items]
    return any(named) and (bullets or not named[0]) and not all(named)
