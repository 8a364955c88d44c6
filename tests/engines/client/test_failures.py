"""What a reply or a broken connection says."""

from __future__ import annotations

import email.utils
import time

import httpx
import pytest

from kveval.engines.client.failures import redirect_target, retry_after_s, why_unreachable


def waits_s(value: str) -> float | None:
    return retry_after_s(httpx.Response(429, headers=[(b"retry-after", value.encode("utf-8"))]))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("12", 12), ("0", 0), ("", None), ("soon", None), ("-3", None), ("1e9", None), ("9" * 12, None), ("٣", None)],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert waits_s(value) == seconds


def test_retry_after_a_date() -> None:
    assert waits_s(email.utils.formatdate(time.time() + 90, usegmt=True)) == pytest.approx(90, abs=5)
    assert waits_s(email.utils.formatdate(time.time() - 90, usegmt=True)) == 0


def test_redirects() -> None:
    def to(location: str, status: int = 302) -> str | None:
        return redirect_target(httpx.Response(status, headers={"location": location}))

    assert to("https://user:pw@host:1/path?token=1#x") == "https://host:1/path"
    assert to("/elsewhere?token=1") == "/elsewhere"
    assert to("") == "?"
    assert to("https://host", 200) is None


def test_what_may_help_when_a_connection_breaks_off() -> None:
    for error in (httpx.ReadError(""), httpx.RemoteProtocolError("illegal status line")):
        assert "if the server speaks TLS, use: https://" in why_unreachable(error, "http://host")
        assert "https" not in why_unreachable(error, "https://host")
