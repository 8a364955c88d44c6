"""Recognizes an answer that says: the text does not say."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from kveval.tasks.scoring.numbers import LONG_NUMBER_DIGITS
from kveval.tasks.scoring.text import VALUES, Normalizer, holds

_NOT = r"(?:not|never|nowhere|\w+n['’]t|cannot)"
_SAID = (
    r"(?:stat|mention|specif|includ|provid|indicat|reveal|contain|disclos|list|record|referenc|discuss|describ|address"
    r"|cover|appear|occur|exist|defin|report|shown?|establish|detail|answer|identif|clarif|elaborat|publish|document"
    r"|allud|confirm)\w*"
    r"|say[s]?|said|tells?|told|gives?|given|found|present|there|known|clear|available|part\s+of|have|has|know|see|find"
    r"|refer(?:s|red|enced)?(?:\s+to)?|speak|spoken|noted?|written|specify|supplied|supply|come\s+up|hold"
    r"|name[sd]?(?!\s+(?:after|for|as|(?-i:[A-Z\"'“‘0-9])))"
)
_SOURCE = (
    r"(?:texts?|passages?|documents?|context|list|conversation|code|source|material|excerpts?|essays?|articles?"
    r"|paragraphs?|transcript|records?|minutes|data)"
)
_VALUE = (
    r"(?:information|mention|numbers?|answer|values?|references?|record|data|idea|decisions?|details?|indication|trace"
    r"|statement|such)"
)
_UNSAID = r"(?:un(?:known|clear|specified|stated|named|identified|disclosed|mentioned|determined|answered)|missing)"
_GIVEN = r"(?:named|mentioned|identified|listed|given|stated|specified|recorded|found|provided|told)"
_ABSTENTION = re.compile(
    rf"""
      \b{_NOT}[\s_-]+(?:\w+ly\s+|been\s+|actually\s+|to\s+be\s+)*(?:{_SAID})\b(?!\s+(?:for|as|to\s+have)\b)
    | \b{_NOT}\s+(?:\w+ly\s+)?(?:in|part\s+of|among|on|within|anywhere)\s+(?:\w+\s+)?(?:the|this|these|that|any)\s+
      (?:\w+\s+)?{_SOURCE}\b
    | \bnot\s+(?:some|any)thing\s+(?:that\s+)?(?:the|this|these)\s+(?:\w+\s+)?{_SOURCE}\b
    | \bnowhere\s+(?:in|to\s+be\s+found)\b
    | \b(?:can(?:not|['’]t|\s+not)|could(?:\s+not|n['’]t)|unable\s+to|not\s+able\s+to|(?:im|not\s+)possible\s+to)\s+
      (?:be\s+)?(?:\w+ly\s+)?(?:find|found|see|say|tell|read|recall|know\w*|provid\w*|answer\w*|locat\w*|identif\w*
      |determin\w*|infer\w*|confirm\w*|establish\w*|deduc\w*)\b
    | \bfail(?:s|ed)?\s+to\s+(?:{_SAID})\b
    | \b(?:says?|said|mentions?|contains?|states?|gives?|provides?|reveals?|tells?)\s+nothing\b
    | \bnothing\s+(?:is\s+|was\s+)?(?:said|stated|mentioned|about|on|in\s+the)\b
    | \b(?:no|without|lacks?|omits?|lacking|leaves?\s+out)\s+(?:[\w'’-]+\s+){{0,4}}?{_VALUE}\b(?!\s+other)
    | \b(?:no|none\s+of\s+the|none\s+of\s+these)\s+(?:\w+\s+)?{_SOURCE}\b
    | \b{_SOURCE}\s+(?:lacks?|omits?|(?:is|are)\s+silent|leaves?\s+(?:it|this|that)\s+(?:out|open))\b
    | \b(?:nobody|no\s+\w+)\s+(?:is|was|are|were)\s+(?:\w+ly\s+)?{_GIVEN}\b
    | \b(?:nobody|no\s+one)\s+(?:says?|mentions?|states?|tells?|told)\b
    | \b(?:I|we)\s+(?:see|find|found|have)\s+(?:no|nothing)\b
    | \bno\s+(?:clue|word\s+on)\b
    | \bthere\s+(?:is|are|was|were)(?:\s+no(?:t|ne)?|n['’]t)\b(?!\s+(?:\w+\s+)?(?:doubt|question|need|reason)\b)
    | \b(?:makes?\s+no\s+(?:mention|reference)|refers?\s+to\s+no)\b
    | \b(?:mentions?|names?|says?|states?|gives?)\b[^.;!?\n]{{0,80}}\bbut\s+not\s+
      (?:the|its|his|her|their|when|who|where|why|how)\b
    | \b(?:do\s+not|don['’]t)\s+(?:think|believe)\b
    | ^\W*(?:(?:answer|it|that)\W+(?:is\s+)?)?(?:{_UNSAID}|none|n/a|nothing|no\s+answer|unanswerable|not\s+applicable)
      \s*(?:[^\w\s-]|$)
    | \b(?:is|are|was|were|be|remains?|left)\s+(?:\w+ly\s+)?(?:{_UNSAID}|absent|omitted|left\s+out)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
# A clause that claims something takes an abstention back. The claim starts with a capital, a digit or a quote, which
# tells "it was Napoleon" from "it is a story".
_CLAIM = re.compile(
    r"""
      \b(?i:it|he|she|they|this|that|answer|numbers?|values?|name|year|date|who|which)
      (?:\s+(?i:is|was|were|are|would\s+be|must\s+be|should\s+be|could\s+be|might\s+be)|['’]s)(?:\s*:)?\s+
      (?i:probably\s+|likely\s+|most\s+likely\s+|actually\s+)?
      ["'“‘$€£(*_`]*(?!(?i:not|unknown|unclear|unspecified|unstated|none|missing|absent|n/a|there|no)\b)[A-Z0-9]
    | \b(?i:I|we)\s+(?i:would\s+)?(?i:believe|think|guess|assume|suppose)\b
    | \b(?i:my|best|educated)\s+guess\b
    | \b(?i:but|rather)\s+(?i:at|in|on|by)\b
    | \b(?i:the|its|his|her|their)\s+(?:[\w'’-]+\s+){1,3}?(?i:is|was|were|are)\s+(?i:probably\s+|likely\s+|actually\s+)?
      (?<!\btext\s)["'“‘$€£(*_`]*(?!(?i:not|un\w+|none|missing|absent|n/a|there|no|about)\b)[A-Z0-9]
    """,
    re.VERBOSE,
)
# "Perhaps Mark Twain." is a guess, "perhaps in another part" is none.
_HEDGE = re.compile(
    r"""
    \b(?:perhaps|possibly|probably|maybe|presumably|most\s+likely|I['’]d\s+say|I\s+would\s+say|I\s+suspect)\b[,:]?\s+
    (?!(?:not|in|on|at|elsewhere|because|it\s+is\s+not|the\s+\w+\s+(?:is|was|does|did)\s+not|you|there|another|outside)\b)\w
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?;:\n()—–]+(?=\s|\Z|[\"'*`)])|\n|\s-\s|[()—–]")
_CLAUSE = re.compile(r",\s+")
_NAME = r"[A-Z0-9][\w'’.-]*"
_BARE_NAME = re.compile(
    rf"[\"'“‘*_`\s]*(?:the\s+|The\s+|by\s+|in\s+|a\s+)?({_NAME}(?:\s+(?:of|the|de|van|von|and|or|{_NAME}))*)[\"'”’*_`\s]*"
)
_DOER = re.compile(
    rf"\W*((?:{_NAME}\s+){{1,4}})(?:did|was|is|were|has|had|[a-z]+ed|wrote|won|led|made|built|became|held|ran|sang|took|gave|said)\b"
)
_LINK = re.compile(r"\s*(?:although|though|however|but|while|and|yet|still)\b,?", re.IGNORECASE)
# How sentences begin that name nobody.
_OPENERS = frozenset(
    """a an the this that these those it its he she they we you i there here so thus hence but and or if as in on
    at for from to by with of no not none nothing nobody yes sorry hello dear well hmm note answer question
    based according since because however although while also ok okay alas information everything all some any
    each both either neither what who when where which why how n/a na only please text document documents
    passage context however""".split()  # noqa: SIM905
)
_WORD = re.compile(r"[\w'’]+")
_LONG_NUMBER = re.compile(rf"\d{{{LONG_NUMBER_DIGITS}}}")


_FIRST_SENTENCES = 3
_ASKED = frozenset("answer number value name author person place year date of the for it that this".split())  # noqa: SIM905
_OUTRIGHT = re.compile(
    rf"""
    \W*(?:(?:final\s+)?answer\W+)?
    (?: (?:(?:it|that|this)\s+(?:is|was)\s+|(?:the\s+)?(?P<subject>[\w'’ -]{{1,60}}?)\s+(?:is|was|are|were)\s+)?
        (?:(?:not|never)\s+(?:{_GIVEN}|known|said|there|available)|{_UNSAID})
      | (?:I\s+)?(?:do\s+not|don['’]t)\s+know
      | (?:the\s+)?{_SOURCE}\s+(?:do(?:es)?\s+not|do(?:es)?n['’]t)\s+
        (?:say|tell|(?:state|mention|specify)(?:\s+(?:it|that|this))?)
    )
    (?:\s+(?:in|by|from)\s+(?:the|any|this|these)\s+(?:\w+\s+)?{_SOURCE})?\W*
    """,
    re.VERBOSE | re.IGNORECASE,
)


def abstains(answer: str, values: Iterable[str] = (), normalizer: Normalizer = VALUES, question: str = "") -> bool:
    """Returns whether an answer says that the text does not say, and names no value beside it.

    A long number is a value too: "not stated in 1999, but it is 1234567" does not abstain, "not stated in 1999" does.
    So is a name that is given beside it: "not stated. Mark Twain".

    Args:
        values: what an answer must not name.
        question: names in it are no guesses.
    """
    text = normalizer.normalize(answer)
    if _LONG_NUMBER.search(text) or any(holds(text, normalizer.normalize(value)) for value in values):
        return False
    plain = unicodedata.normalize("NFKC", answer)
    return bool(_ABSTENTION.search(plain)) and not _CLAIM.search(plain) and not _guesses_beside(plain, question)


def disowns(answer: str, question: str) -> bool:
    """Returns whether one of the first sentences says outright that the answer is not there, whatever the others name.

    "not stated. Mark Twain" abstains and guesses at once. "It is not stated directly, but it is Mark Twain" does not,
    nor does a remark about something that was not asked: "Mark Twain. His birthplace is not known."
    """
    known = {word.casefold() for word in _WORD.findall(question)} | _ASKED
    for sentence in list(filter(str.strip, _SENTENCE.split(answer)))[:_FIRST_SENTENCES]:
        if found := _OUTRIGHT.fullmatch(unicodedata.normalize("NFKC", sentence)):
            subject = _WORD.findall((found["subject"] or "").casefold())
            if known.issuperset(subject):
                return True
    return False


def _guesses_beside(plain: str, question: str) -> bool:
    """Returns whether a text beside an abstention gives a name or a hedged guess."""
    if _HEDGE.search(plain):
        return True
    known = {word.casefold() for word in _WORD.findall(question)} | _OPENERS
    for sentence in filter(None, _SENTENCE.split(plain)):
        says_so = bool(_ABSTENTION.search(sentence))
        for part in _CLAUSE.split(sentence) if says_so else [sentence, *_CLAUSE.split(sentence)]:
            clause = _LINK.sub("", part)
            if says_so and _ABSTENTION.search(clause):
                continue
            found = _BARE_NAME.fullmatch(clause) or _DOER.match(clause)
            if found and _is_new(found[1], known):
                return True
    return False


def _is_new(name: str, known: frozenset[str] | set[str]) -> bool:
    """Returns whether a name has a word that is neither known nor one with which any sentence may begin."""
    words = [word for word in _WORD.findall(name) if not word.casefold().endswith("ly")]
    return any(word.casefold() not in known for word in words) and words[0].casefold() not in _OPENERS
