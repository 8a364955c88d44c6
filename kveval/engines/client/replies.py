"""Reads what a reply says about sending the request again or elsewhere, and what a broken connection means."""

from __future__ import annotations

import email.utils
import time
from urllib.parse import urlsplit

import httpx


def retry_after_s(response: httpx.Response) -> float | None:
    """Returns the seconds that the header Retry-After asks for (RFC 9110, section 10.2.3). None without the header."""
    value = response.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit() and len(value) < 10:
        return float(value)
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def redirect_target(response: httpx.Response) -> str | None:
    """Returns where a redirect leads, without passwords and queries. None if the reply is not a redirect."""
    if not 300 <= response.status_code < 400:
        return None
    parts = urlsplit(response.headers.get("location", ""))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else parts.path or "?"


def why_unreachable(error: httpx.HTTPError, base_url: str) -> str:
    """Says in a few words why a connection to `base_url` failed, and what may help."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = text.partition("certificate verify failed: ")[2].partition(" (_ssl")[0] or "not trusted"
        return f"its TLS certificate is not accepted ({reason}); use: its authority's certificate as endpoint.ca_file"
    if "WRONG_VERSION_NUMBER" in text or "record layer failure" in text:
        return "it does not speak TLS; use: http:// instead of https://"
    if isinstance(error, httpx.ConnectError):
        return f"nothing answers there ({text or type(error).__name__})"
    if isinstance(error, httpx.TimeoutException):
        return "it does not answer in time"
    if isinstance(error, httpx.ReadError | httpx.RemoteProtocolError) and base_url.startswith("http:"):
        return f"it breaks off ({text or type(error).__name__}); if the server speaks TLS, use: https://"
    return text or type(error).__name__
