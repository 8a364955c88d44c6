from __future__ import annotations

import pytest

from kveval.report.text import shortened, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text\n\twith tabs", "plain text\n\twith tabs"),
        ("naïve 日本語 שלום", "naïve 日本語 שלום"),
        ("a\x00b\x1b[31m", "a⟨U+0000⟩b⟨U+001B⟩[31m"),
        ("\u202egnirts\u2069", "⟨U+202E⟩gnirts⟨U+2069⟩"),
        ("\u200b\ufeff\u2028", "⟨U+200B⟩⟨U+FEFF⟩⟨U+2028⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("a\r\nb", "a⟨U+000D⟩\nb"),
    ],
)
def test_what_cannot_be_seen_is_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown
    visible(text).encode()


def test_shortened() -> None:
    assert shortened("abcdef", 4) == ("abcd", 2)
    assert shortened("abc", 4) == ("abc", 0)
