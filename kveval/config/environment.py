"""Environment variables of an engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import PlainSerializer

HIDDEN = "(hidden)"
# TOKENIZERS_PARALLELISM and its like are none.
_SECRET_NAME = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|KEYS?$|_(PASS|PWD)$", re.IGNORECASE
)
# What stands before the host of a URL: user, password, or a token in place of both.
_USERINFO = re.compile(r"(?<=://)[^/\s]+(?=@)")


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """What may be kept and shown of environment variables: `HIDDEN` is in every value that a secret was taken from.

    The whole value of a variable with the name of a secret, and the credentials in URLs of any other.
    """
    return {
        name: HIDDEN if _SECRET_NAME.search(name) else _USERINFO.sub(HIDDEN, value)
        for name, value in environment.items()
    }


Environment = Annotated[dict[str, str], PlainSerializer(without_secrets, when_used="json")]
