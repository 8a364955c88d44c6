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
    r"|cover|appear|occur|exist|defin|report|shown?|establish|detail|answer)\w*"
    r"|say[s]?|said|tells?|told|gives?|given|found|present|there|known|clear|available|part\s+of|have|has|know|see|find"
)
_SOURCE = (
    r"(?:texts?|passages?|documents?|context|list|conversation|code|source|material|excerpts?|essays?|articles?"
    r"|paragraphs?|transcript|records?|minutes|data)"
)
_VALUE = (
    r"(?:information|mention|numbers?|answer|values?|references?|record|data|idea|decisions?|details?|indication|trace"
    r"|statement|such)"
)
_ABSTENTION = re.compile(
    rf"""
      \b{_NOT}[\s_-]+(?:\w+ly\s+|been\s+|actually\s+|to\s+be\s+)*(?:{_SAID})\b(?!\s+(?:for|as|to\s+have)\b)
    | \b{_NOT}\s+(?:\w+ly\s+)?(?:in|part\s+of|among|on|within|anywhere)\s+(?:\w+\s+)?(?:the|this|these|that|any)\s+
      (?:\w+\s+)?{_SOURCE}\b
    | \bnowhere\s+(?:in|to\s+be\s+found)\b
    | \b(?:can(?:not|['’]t|\s+not)|could(?:\s+not|n['’]t)|unable\s+to|not\s+able\s+to|(?:im|not\s+)possible\s+to)\s+
      (?:be\s+)?(?:find|found|determin\w*|answer\w*|identif\w*|locat\w*|say|tell|know\w*|provid\w*|infer\w*)\b
    | \bfail(?:s|ed)?\s+to\s+(?:{_SAID})\b
    | \b(?:says?|said|mentions?|contains?|states?|gives?|provides?|reveals?|tells?)\s+nothing\b
    | \bnothing\s+(?:is\s+|was\s+)?(?:said|stated|mentioned|about|on|in\s+the)\b
    | \b(?:no|without)\s+(?:[\w'’-]+\s+){{0,4}}?{_VALUE}\b(?!\s+other)
    | \b(?:no|none\s+of\s+the|none\s+of\s+these)\s+(?:\w+\s+)?{_SOURCE}\b
    | \bthere\s+(?:is|are|was|were)(?:\s+no(?:t|ne)?|n['’]t)\b(?!\s+(?:\w+\s+)?(?:doubt|question|need|reason)\b)
    | \bmakes?\s+no\s+mention\b
    | \b(?:do\s+not|don['’]t)\s+(?:think|believe)\b
    | ^\W*(?:unknown|unclear|unspecified|missing|none|n/a|nothing|no\s+answer|unanswerable|not\s+applicable)
      \s*(?:[^\w\s-]|$)
    | \b(?:is|are|remains?)\s+(?:unknown|unclear|unspecified|unstated|absent|missing)\b
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
    """,
    re.VERBOSE,
)


_LONG_NUMBER = re.compile(rf"\d{{{LONG_NUMBER_DIGITS}}}")


def abstains(answer: str, values: Iterable[str] = (), normalizer: Normalizer = VALUES) -> bool:
    """Returns whether an answer says that the text does not say, and names no value beside it.

    A long number is a value too: "not stated in 1999, but it is 1234567" does not abstain, "not stated in 1999" does.
    """
    text = normalizer.normalize(answer)
    if _LONG_NUMBER.search(text) or any(holds(text, normalizer.normalize(value)) for value in values):
        return False
    plain = unicodedata.normalize("NFKC", answer)
    return bool(_ABSTENTION.search(plain)) and not _CLAIM.search(plain)
