"""Finds what an answer denies. "It is not Rollo." names Rollo, and does not give it as the answer."""

from __future__ import annotations

import re

# Where a clause ends. A point or comma inside a number ends none.
_END = re.compile(
    r"""
      [.,;:!?](?=[\s"'*`)\]}]|\Z) | \n | [—–(] | \s-\s
    | \band\s+(?=\w+\s+(?:is|was|are|were|did|does|has|had)\b)
    | \b(?:but|because|although|though|since|while|whereas|however|except|besides|other\s+than|apart\s+from)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_VERB = re.compile(r"\b(?:is|was|are|were|has|had|will|returns?|equals?|became)\b|=", re.IGNORECASE)
_NOT = r"(?:\b(?:not|never|cannot)\b|n['’]t\b)"
# "I do not think (that) it is X" and "I doubt it is X" deny all of their clause.
_DOUBTS = re.compile(
    rf"{_NOT}\s+(?:\w+ly\s+)?(?:think|believe|say|mean|claim|suppose|suggest|imply|confirm|conclude|assume)\b"
    r"|(?<!no )(?<!not )(?<!n['’]t )(?<!never )\bdoubt\s+(?:that\s+)?(?=(?:it|this|that|the)\b)",
    re.IGNORECASE,
)
# "not X", up to the next verb: in "the one that does not return is X", X is the answer.
_DENIES = re.compile(
    rf"""
      (?:{_NOT}|\bneither\b|\bnor\b|\bno\s+longer\b|\brather\s+than\b|\binstead\s+of\b|\bas\s+opposed\s+to\b|\bcontrary\s+to\b
        |\b(?:any|every|all)\s*(?:thing|one|body|of\s+them)?\s+(?:\w+\s+)?(?:but|except(?:\s+for)?|other\s+than)\b)
      (?!\s+(?:only|just|merely|simply|until|before|after|later|earlier|more|less|least|even|all|every|far|long|sure
        |certain|unlike|surprisingly)\b)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SUBJECT = r"(?:(?!\b(?:is|was|are|were|and|but|or|who|which|that|because|than)\b)(?:[^.,;:!?\n]|[.,:](?=\S))){1,60}?"
# "X is not the number", "X is wrong", "X? No."
_IS_DENIED = re.compile(
    rf"""
    (?:\A|(?<=[\s"'*`(,.;:!?]))(?P<subject>{_SUBJECT})["'*`)]*
    (?: \s+(?:is|was|are|were|does|do|did|ca|can|could|has|have)?\s*(?:not|n['’]t)\s+(?:be\s+|been\s+)?
          (?:the|it|that|this|right|correct|what|asked|stated|mentioned|named|listed|found|present|there|in|appear
            |occur|exist|match|fit)\b
      | \s+(?:is|was|are|were|would\s+be)\s+(?:wrong|incorrect|false|ruled\s+out|excluded)\b
      | \?\s*["'*`)]*\s*(?:no|nope|wrong|incorrect)\b
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NEGATIVE = re.compile(rf"{_NOT}|\b(?:no|nor|neither|nothing|nobody)\b", re.IGNORECASE)
_NEGATIVE_HINT = re.compile(
    r"\bno|n['’]t\b|\bnever\b|\bneither\b|\bcannot\b|\brather\b|\binstead\b|\bopposed\b|\bexcept|\bother\b|\bbut\b"
    r"|\bdoubt\b|\bcontrary\b|\bwrong\b|\bincorrect\b|\bfalse\b|\bexcluded\b|\bruled\b",
    re.IGNORECASE,
)
_ENDS_DENYING = re.compile(
    rf"(?:{_NOT}|\brather\s+than|\binstead\s+of)(?:\s+(?!but\b|just\b|only\b)[\w'’]+){{0,5}}[\s:\"'*`(\[{{]*\Z",
    re.IGNORECASE,
)
_LONGEST_CHARACTERS = 20_000
_LONGEST_CLAUSE = 400


def without_denied(text: str, reference: str = "") -> str:
    """Returns the text without what it denies: of "It is not Rollo, it is Harald" the word Rollo is left out.

    Args:
        reference: a right answer. One that holds a negation itself, as in "not guilty", is denied by no negation.
    """
    if len(text) > _LONGEST_CHARACTERS or _NEGATIVE.search(reference) or not _NEGATIVE_HINT.search(text):
        return text
    spans = [match.span("subject") for match in _IS_DENIED.finditer(text)]
    for pattern, stops_at_verb in ((_DOUBTS, False), (_DENIES, True)):
        ends = [match.end() for match in pattern.finditer(text)]
        spans += [(end, _clause_end(text, end, stops_at_verb)) for end in ends]
    kept, at = [], 0
    for start, end in sorted(spans):
        if end > at:
            kept.append(text[at : max(start, at)])
            at = end
    return " … ".join([*kept, text[at:]])


def is_denied_before(text: str, place: int) -> bool:
    """Returns whether a text denies what stands at a place, as in ``not {"name": ...}``."""
    return bool(_ENDS_DENYING.search(text[max(place - 80, 0) : place]))


def _clause_end(text: str, start: int, stops_at_verb: bool) -> int:
    limit = min(start + _LONGEST_CLAUSE, len(text))
    end = next((match.start() for match in _END.finditer(text, start, limit) if match.start() > start), limit)
    if stops_at_verb and (verb := _VERB.search(text, start, end)):
        end = verb.start()
    return end
