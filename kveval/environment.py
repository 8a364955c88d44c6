"""Environment variables of an engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import PlainSerializer

_SECRET_NAME = re.compile(r"(TOKEN|KEY|SECRET|PASSWORD|CREDENTIALS?)$", re.IGNORECASE)


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """What a run keeps of environment variables: not the value of one whose name is that of a secret."""
    return {name: "(hidden)" if _SECRET_NAME.search(name) else value for name, value in environment.items()}


Environment = Annotated[dict[str, str], PlainSerializer(without_secrets, when_used="json")]
