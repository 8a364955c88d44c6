"""Environment variables of an engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import PlainSerializer

HIDDEN = "(hidden)"
# TOKENIZERS_PARALLELISM and the like are not secrets.
_SECRET_NAME = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|KEYS?$|_(PASS|PWD)$", re.IGNORECASE
)
# Before the host of a URL: user and password, or a token.
_USERINFO = re.compile(r"(?<=://)[^/\s]+(?=@)")


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns environment variables with `HIDDEN` in place of secrets, so that they can be kept and shown.

    A variable that is named like a secret loses its whole value. All others lose the credentials in URLs.
    """
    return {
        name: HIDDEN if _SECRET_NAME.search(name) else _USERINFO.sub(HIDDEN, value)
        for name, value in environment.items()
    }


Environment = Annotated[dict[str, str], PlainSerializer(without_secrets, when_used="json")]
