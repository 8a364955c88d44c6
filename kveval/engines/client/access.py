"""Reaches a server: its key and certificates, and the model that it serves."""

from __future__ import annotations

import json
import os.path
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from kveval.engines.client.dialect import Dialect
from kveval.engines.client.events import MAX_ERROR_BYTES, bound
from kveval.errors import ConfigError

AnswerForm = tuple[str, bool]
"""The path that was asked, and whether the answer was streamed."""

_HIDDEN = "(key)"
# Characters. A shorter beginning of the key may be a word, or the prefix that all keys of a provider share.
_LEAST_PART = 12
# Characters. A shorter key may be a word of an answer: for servers that want no key, people set EMPTY or test.
_LEAST_SECRET = 8


@dataclass(frozen=True, slots=True)
class Access:
    """How requests reach one server. The default fits a server that kveval launched.

    Attributes:
        api_key: sent in the header of every request. No text that is kept may hold it: pass what a server says through
            `message`, `data` or `entry_of` first.
        ca_file: PEM certificates of the server's authority; None = the public authorities.
        dialect: what the server understands.
        cache_salt: sent with requests that have no salt. It hides what earlier requests left in the prefix cache.
        served: what ``/v1/models`` said of the model at the start. None for a server that only kveval uses.
        answers_as: what the server calls the model in its answers. Some proxies use one name in streams and another in
            whole answers.
    """

    api_key: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    dialect: Dialect = field(default_factory=Dialect)
    cache_salt: str | None = None
    served: Mapping[str, Any] | None = None
    answers_as: Mapping[AnswerForm, str] = field(default_factory=dict)

    def http(self, base_url: str, timeout: httpx.Timeout) -> httpx.AsyncClient:
        """Returns a client that follows no redirect: the key is for the configured address only."""
        return httpx.AsyncClient(
            base_url=base_url,
            timeout=timeout,
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
            event_hooks={"response": [bound]},
            headers={"authorization": f"Bearer {self.api_key}"} if self.api_key else None,
            # Without TLS there is nothing to verify, and loading the certificates takes a while.
            verify=self.certificates() if base_url.startswith("https:") else False,
        )

    def certificates(self) -> ssl.SSLContext | bool:
        """Returns what verifies a server's certificate; True = the public authorities."""
        if self.ca_file is None:
            return True
        try:
            return ssl.create_default_context(cafile=str(self.ca_file.expanduser()))
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"endpoint.ca_file: {self.ca_file} cannot be read ({error}); use: a file with PEM certificates"
            ) from error

    def message(self, said: object, most: int = 500) -> str:
        """Returns what a server said without the key, and short enough for a message.

        Pass the whole text: after a cut inside the key, too little of it may be left to be recognized.
        """
        return self._scrub(str(said)[:MAX_ERROR_BYTES])[:most]

    def data(self, text: str) -> str:
        """Returns what a server said without the key, in full, for facts and records."""
        return text if self.api_key is None or len(self.api_key) < _LEAST_SECRET else self._scrub(text)

    def entry_of(self, models: Any, name: str) -> dict[str, Any] | None:
        """Returns what tells apart models of one name in an answer of ``/v1/models``. None if `name` is not listed."""
        entries = models.get("data") if isinstance(models, Mapping) else None
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, Mapping) and entry.get("id") == name:
                meta = entry.get("meta")
                kept = {key: entry.get(key) for key in ("id", "root", "parent", "max_model_len")}
                # llama.cpp's server.
                kept |= {key: meta.get(key) for key in ("n_params", "size") if isinstance(meta, Mapping)}
                return {
                    key: self.data(value) if isinstance(value, str) else value
                    for key, value in kept.items()
                    if value and isinstance(value, str | int | float)
                }
        return None

    def _scrub(self, text: str) -> str:
        """Removes the key and long beginnings of it, in the spellings of plain text, URLs and JSON."""
        if not self.api_key:
            return text
        key = self.api_key
        spellings = {key, quote(key), quote(key, safe=""), json.dumps(key)[1:-1]}
        for spelling in spellings:
            text = text.replace(spelling, _HIDDEN)
        for beginning in {spelling[:_LEAST_PART] for spelling in spellings}:
            before, *after = text.split(beginning)
            # How much of what follows continues the key, in any spelling.
            rests = [
                max(len(os.path.commonprefix([part, spelling[_LEAST_PART:]])) for spelling in spellings)  # noqa: RUF071
                for part in after
            ]
            text = before + "".join(_HIDDEN + part[rest:] for part, rest in zip(after, rests, strict=True))
        return text


def is_other_entry(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Returns whether two answers of ``/v1/models`` tell of two models.

    A server may say more of a model once the model is loaded, and less of it when it is not.
    """
    if before.keys() <= now.keys() or now.keys() <= before.keys():
        return any(before[key] != now[key] for key in before.keys() & now.keys())
    return True
