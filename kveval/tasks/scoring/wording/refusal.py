"""Recognizes an answer that refuses: the model will not answer, whatever the text says."""

from __future__ import annotations

import re

_HELP = r"""(?:
      help|assist|comply|fulfil\w*|continue|engage|discuss|participate|do\s+(?:that|this|it)
    | answer\s+(?:that|this)(?!\s+(?:question\s+)?(?:from|based|with|using))
    | provide\s+(?:assistance|help|(?:that|this)(?!\s+information))
    | (?:support|process|share)\s+(?:that|this)(?!\s+information)
    )\b"""
_REFUSAL = re.compile(
    rf"""
      \b(?:I|we)\s*(?:['’]m|\s+am|['’]re|\s+are)\s+(?:really\s+|very\s+|so\s+)?(?:sorry|unable|not\s+able)\b
      [^.!?\n]{{0,40}}?\b(?:can(?:not|['’]t|\s+not)|(?:unable|able)\s+to|to)\s+(?:\w+ly\s+)?{_HELP}
    | \b(?:unable|not\s+able)\s+to\s+{_HELP}
    | \b(?:I|we)\s+(?:can(?:not|['’]t|\s+not)|won['’]t|will\s+not|could\s+not|couldn['’]t)\s+
      (?:\w+ly\s+|be\s+able\s+to\s+)*{_HELP}
    | \b(?:I|we)\s+(?:must|have\s+to)\s+(?:respectfully\s+|politely\s+)?(?:decline|refuse)\b
    | \b(?:I|we)\s+(?:respectfully\s+|politely\s+)?(?:decline|refuse)\s+to\b
    | \b(?:against|violates?|violation\s+of|not\s+permitted\s+by|prohibited\s+by)\s+(?:my|our)\s+
      (?:\w+\s+){{0,2}}(?:guidelines|polic(?:y|ies)|programming|rules|principles)\b
    | \bas\s+an?\s+(?:AI|artificial\s+intelligence|(?:AI\s+)?language\s+model|assistant)\b[^.!?\n]{{0,60}}?
      \b(?:can(?:not|['’]t|\s+not)|unable|not\s+able|won['’]t|do\s+not|don['’]t)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_FIRST_CHARACTERS = 300


def refuses(answer: str) -> bool:
    """Returns whether an answer begins by refusing to help.

    Saying that the text does not answer is no refusal: see `kveval.tasks.scoring.abstention`.
    """
    return bool(_REFUSAL.search(answer[:_FIRST_CHARACTERS]))
