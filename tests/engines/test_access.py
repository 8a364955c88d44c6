"""Headers, keys and what is said of a server that cannot be reached."""

from __future__ import annotations

import email.utils
import time

import httpx
import pytest

from kveval.engines.access import Access, redirect_target, retry_after_s, served_entry


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


def test_a_key_is_not_shown() -> None:
    access = Access(api_key="sk-secret")
    assert "sk-secret" not in repr(access)
    assert access.scrub("Incorrect API key provided: sk-secret.") == "Incorrect API key provided: (key)."
    assert Access().scrub("text") == "text"


def test_redirects() -> None:
    def to(location: str, status: int = 302) -> str | None:
        return redirect_target(httpx.Response(status, headers={"location": location}))

    assert to("https://user:pw@host:1/path?token=1#x") == "https://host:1/path"
    assert to("/elsewhere?token=1") == "/elsewhere"
    assert to("") == "?"
    assert to("https://host", 200) is None


def test_the_entry_of_a_model() -> None:
    models = {"data": [{"id": "a"}, {"id": "b", "root": "/m", "created": 17, "meta": {"n_params": 5, "vocab": 3}}]}
    assert served_entry(models, "b") == {"id": "b", "root": "/m", "n_params": 5}
    assert served_entry(models, "c") is None
    for broken in (None, [], {"data": None}, {"data": ["b"]}, {"data": {"id": "b"}}):
        assert served_entry(broken, "b") is None
