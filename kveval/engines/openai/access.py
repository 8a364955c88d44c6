"""How requests reach a server: address, key, certificates, and what to say when they do not."""

from __future__ import annotations

import email.utils
import json
import os.path
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from kveval.engines.openai.dialect import Dialect
from kveval.errors import ConfigError

_HIDDEN = "(key)"
# Characters. What begins as the key does and is no longer than that may be a word, or what all keys begin with.
_LEAST_PART = 12
# A shorter key may be a word of an answer: servers that want none are given EMPTY, none or test.
_LEAST_SECRET = 8

_MOST_ERROR_BYTES = 1 << 16
_MOST_ANSWER_BYTES = 1 << 26


class TooLongError(httpx.TransportError):
    """A server's answer, or one event of a stream, is longer than any that was asked for."""


@dataclass(frozen=True, slots=True)
class Access:
    """The default is that of a server kveval launched itself.

    Attributes:
        api_key: sent in every request's header, and nowhere else: no text that is kept may hold it; what a server says
            passes through `message`, `data` or `entry_of` first.
        cache_salt: of every request that has none of its own; keeps it from what earlier requests left in the cache.
        served: what ``/v1/models`` said of the model when the variant was begun; None where nobody but kveval can
            change it.
        answers_as: what the server calls the model in its answers; None where it does not say.
    """

    api_key: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    dialect: Dialect = field(default_factory=Dialect)
    cache_salt: str | None = None
    served: Mapping[str, Any] | None = None
    answers_as: str | None = None

    def http(self, base_url: str, timeout: httpx.Timeout) -> httpx.AsyncClient:
        """A client that follows no redirect: the key is for the configured address alone.

        Raises:
            ConfigError: `ca_file` cannot be read.
        """
        return httpx.AsyncClient(
            base_url=base_url,
            timeout=timeout,
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
            event_hooks={"response": [_bound]},
            headers={"authorization": f"Bearer {self.api_key}"} if self.api_key else None,
            # Without TLS there is nothing to verify, and loading the certificates takes a while.
            verify=self.certificates() if base_url.startswith("https:") else False,
        )

    def certificates(self) -> ssl.SSLContext | bool:
        """What a server's certificate is held against; True: the public authorities.

        Raises:
            ConfigError: `ca_file` cannot be read.
        """
        if self.ca_file is None:
            return True
        try:
            return ssl.create_default_context(cafile=str(self.ca_file.expanduser()))
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"endpoint.ca_file: {self.ca_file} cannot be read ({error}); allowed: a file with PEM certificates"
            ) from error

    def message(self, said: object, most: int = 500) -> str:
        """What a server said, as a message may hold it: without the key, which servers like to repeat, and short.

        `said` is whole: in a text that was cut amid the key, too little of it may be left to be recognized.
        """
        return self._scrub(str(said)[:_MOST_ERROR_BYTES])[:most]

    def data(self, text: str) -> str:
        """What a server said, as facts and records may hold it: all of it, without the key."""
        return text if self.api_key is None or len(self.api_key) < _LEAST_SECRET else self._scrub(text)

    def entry_of(self, models: Any, name: str) -> dict[str, Any] | None:
        """`served_entry` without the key."""
        entry = served_entry(models, name)
        return entry and {key: self.data(value) if isinstance(value, str) else value for key, value in entry.items()}

    def _scrub(self, text: str) -> str:
        """`text` without the key and long beginnings of it, as they are and as URLs and JSON spell them."""
        if not self.api_key:
            return text
        key = self.api_key
        spellings = {key, quote(key), quote(key, safe=""), json.dumps(key)[1:-1]}
        for spelling in spellings:
            text = text.replace(spelling, _HIDDEN)
        for beginning in {spelling[:_LEAST_PART] for spelling in spellings}:
            before, *after = text.split(beginning)
            # Of what follows, as much as goes on like the key in some spelling.
            rests = [
                max(len(os.path.commonprefix([part, spelling[_LEAST_PART:]])) for spelling in spellings)  # noqa: RUF071
                for part in after
            ]
            text = before + "".join(_HIDDEN + part[rest:] for part, rest in zip(after, rests, strict=True))
        return text


class _Bounded(httpx.AsyncByteStream):
    """The body of `response` as far as it is of use: the beginning of an error, and no answer without end."""

    def __init__(self, response: httpx.Response, stream: httpx.AsyncByteStream) -> None:
        self._is_error = response.status_code != httpx.codes.OK
        self._is_streamed = "event-stream" in response.headers.get("content-type", "")
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            # Events are read line by line.
            line_end = chunk.rfind(b"\n") if self._is_streamed and not self._is_error else -1
            size = size + len(chunk) if line_end < 0 else len(chunk) - line_end - 1
            if size > _MOST_ANSWER_BYTES:
                raise TooLongError(f"the answer is longer than {_MOST_ANSWER_BYTES >> 20} MiB")
            yield chunk
            if self._is_error and size >= _MOST_ERROR_BYTES:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx.Response) -> None:
    if isinstance(response.stream, httpx.AsyncByteStream):
        response.stream = _Bounded(response, response.stream)


def served_entry(models: Any, name: str) -> dict[str, Any] | None:
    """What tells one model of a ``/v1/models`` answer from another that goes by the same name; None: not listed."""
    entries = models.get("data") if isinstance(models, Mapping) else None
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and entry.get("id") == name:
            meta = entry.get("meta")
            kept = {key: entry.get(key) for key in ("id", "root", "parent", "max_model_len")}
            # llama.cpp's own server.
            kept |= {key: meta.get(key) for key in ("n_params", "size") if isinstance(meta, Mapping)}
            return {key: value for key, value in kept.items() if value and isinstance(value, str | int | float)}
    return None


def retry_after_s(response: httpx.Response) -> float | None:
    """Seconds of the header Retry-After (RFC 9110, section 10.2.3), which may also be a date; None without one."""
    value = response.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit() and len(value) < 10:
        return float(value)
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def redirect_target(response: httpx.Response) -> str | None:
    """Where a redirect leads, without what may be secret in it; None: it is none."""
    if not 300 <= response.status_code < 400:
        return None
    parts = urlsplit(response.headers.get("location", ""))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else parts.path or "?"


def why_unreachable(error: httpx.HTTPError, base_url: str) -> str:
    """A failure of a connection to `base_url` in a few words, and what would help where that is known."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = text.partition("certificate verify failed: ")[2].partition(" (_ssl")[0] or "not trusted"
        return (
            f"its TLS certificate is not accepted ({reason}); allowed: its authority's certificate as endpoint.ca_file"
        )
    if "WRONG_VERSION_NUMBER" in text or "record layer failure" in text:
        return "it does not speak TLS; allowed: http:// for a server without"
    if isinstance(error, httpx.ConnectError):
        return f"nothing answers there ({text or type(error).__name__})"
    if isinstance(error, httpx.TimeoutException):
        return "it does not answer in time"
    if isinstance(error, httpx.ReadError | httpx.RemoteProtocolError) and base_url.startswith("http:"):
        return f"it breaks off ({text or type(error).__name__}); allowed: https:// for a server that speaks TLS"
    return text or type(error).__name__
