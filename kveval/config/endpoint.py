"""A server that already runs: the configuration's ``variants.*.endpoint``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from kveval.config.values import StrictModel
from kveval.errors import ConfigError

_ENVIRONMENT_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
# What a header may carry (RFC 9110, section 5.5), without spaces: a key has none.
_KEY = re.compile(r"[\x21-\x7e]+")

KEY_VARIABLES: set[str] = set()
"""Environment variables that hold keys. No report of a crash may show their values."""


class DeclaredConfig(StrictModel):
    """What the user says about a server that does not say it itself. kveval shows it as declared, never as established.

    Attributes:
        engine_version: name and version, such as ``llama.cpp b6500``.
        scales: of K and V; see `Facts.scales`.
        max_model_len: prompt plus output it takes, in tokens.
        max_num_seqs: requests it runs at once; no more are sent.
    """

    engine_version: str | None = None
    device: str | None = None
    attention_backend: str | None = None
    kv_capacity_tokens: Annotated[int, Field(gt=0)] | None = None
    scales: Literal["calibrated", "1.0", "dynamic"] | None = None
    prefix_caching: bool | None = None
    max_model_len: Annotated[int, Field(gt=0)] | None = None
    max_num_seqs: Annotated[int, Field(gt=0)] | None = None


class EndpointConfig(StrictModel):
    """An OpenAI-compatible server to attach to. Nothing is started, and nothing is stopped.

    Attributes:
        url: ``http://host:port`` or ``https://...``, with the path in front of ``/v1``; ``/v1`` itself may be left out.
        model: its name in the server's ``/v1/models``.
        api_key_env: the environment variable that holds the key; the key itself is written nowhere.
        ca_file: PEM certificates to trust in place of the public ones, for a server with one of its own.
        chat: whether tasks with conversations go to its chat endpoint: ``messages``, or ``tools`` where it also parses
            tool calls. Its chat template must be the model's own.
        declared: facts the server does not reveal.
    """

    url: str
    model: Annotated[str, Field(min_length=1)]
    api_key_env: str | None = None
    ca_file: Path | None = None
    chat: Literal["none", "messages", "tools"] = "none"
    declared: DeclaredConfig = DeclaredConfig()

    # The validators below never repeat what they refuse: it may hold a password or be the key itself.
    @field_validator("url", mode="before")
    @classmethod
    def _plain_address(cls, value: Any) -> str:
        try:
            parts = urlsplit(str(value).strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError("not an address; use http://host:port or https://host:port") from None
        if parts.username is not None or parts.password is not None or "@" in parts.netloc:
            raise ValueError("has credentials in it, which would be written down; use api_key_env")
        if parts.scheme not in ("http", "https") or not host:
            raise ValueError("not an address of a web server; use http://host:port or https://host:port")
        if parts.query or parts.fragment:
            raise ValueError("has a query or a fragment; use http://host:port, and a path in front of /v1")
        shown = f"[{host}]" if ":" in host else host
        path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
        return f"{parts.scheme}://{shown}{f':{port}' if port is not None else ''}{path}"

    @field_validator("api_key_env", mode="before")
    @classmethod
    def _a_name(cls, value: Any) -> str | None:
        if value is not None and not (isinstance(value, str) and _ENVIRONMENT_NAME.fullmatch(value)):
            raise ValueError(
                "not the name of an environment variable; use upper-case letters, digits and '_'. The key itself "
                "belongs in the variable, not here"
            )
        return value

    def api_key(self, where: str) -> str | None:
        """Returns the key from the environment; None if the endpoint needs none. Errors call the endpoint `where`."""
        if self.api_key_env is None:
            return None
        KEY_VARIABLES.add(self.api_key_env)
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise ConfigError(
                f"{where}.api_key_env: {self.api_key_env} is not set; set it to the key, or name another variable"
            )
        if not _KEY.fullmatch(key):
            raise ConfigError(
                f"{where}.api_key_env: the value of {self.api_key_env} holds spaces or characters outside ASCII; "
                "use the key as it is sent in the header Authorization: Bearer"
            )
        return key


def expand_endpoint(value: Any) -> Any:
    """Refuses anything but a mapping. An address alone may hold a password, which pydantic's own error would show."""
    if value is None or isinstance(value, EndpointConfig | dict):
        return value
    raise ValueError("not a mapping; use {url: http://host:port, model: NAME}")
