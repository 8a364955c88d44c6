"""How requests reach a server: address, key, certificates, and what to say when they do not."""

from __future__ import annotations

import email.utils
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from kveval.engines.dialect import Dialect
from kveval.errors import ConfigError

_HIDDEN = "(key)"


@dataclass(frozen=True, slots=True)
class Access:
    """The default is that of a server kveval launched itself.

    Attributes:
        api_key: sent in every request's header, and nowhere else: no text that is kept may hold it; see `scrub`.
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

    def scrub(self, text: str) -> str:
        """`text` without the key: servers like to repeat a wrong one."""
        return text.replace(self.api_key, _HIDDEN) if self.api_key else text


def served_entry(models: Any, name: str) -> dict[str, Any] | None:
    """What tells one model of a ``/v1/models`` answer from another that goes by the same name; None: not listed."""
    entries = models.get("data") if isinstance(models, Mapping) else None
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and entry.get("id") == name:
            meta = entry.get("meta")
            kept = {key: entry.get(key) for key in ("id", "root", "parent", "max_model_len") if entry.get(key)}
            # llama.cpp's own server.
            return kept | {
                key: meta[key] for key in ("n_params", "size") if isinstance(meta, Mapping) and meta.get(key)
            }
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


def why_unreachable(error: httpx.HTTPError) -> str:
    """A connection's failure in a few words, and what would help where that is known."""
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
    return text or type(error).__name__
