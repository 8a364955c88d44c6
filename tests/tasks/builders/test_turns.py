"""A conversation as text and as messages."""

from __future__ import annotations

import pytest

from kveval.tasks.builders.turns import exchange, messages, turns
from kveval.tasks.corpora.texts import haystack_text


def test_text_and_messages_are_the_same_conversation():
    told = turns(haystack_text("generated"))
    pieces = [told.text(3), "\n\n" + exchange("My number is 5.", "Noted: it is."), told.stretched(4, "Short.")]
    assert messages(pieces) == [
        {"role": "user", "content": pieces[0].split("\n\n")[1].removeprefix("User: ")},
        {"role": "assistant", "content": told.prose(3)},
        {"role": "user", "content": "My number is 5."},
        {"role": "assistant", "content": "Noted: it is."},
        {"role": "user", "content": pieces[2].split("\n\n")[1].removeprefix("User: ")},
        {"role": "assistant", "content": "Short."},
    ]
    with pytest.raises(ValueError, match="is not an exchange"):
        messages(["only text"])


def test_one_source_is_told_in_one_way():
    assert turns(haystack_text("generated")) is turns(haystack_text("generated"))


def test_stretching_a_turn_changes_what_is_told_and_not_who_asks():
    told = turns(haystack_text("generated"))
    whole, short = told.text(7), told.stretched(7, "Short.")
    assert short.endswith("Assistant: Short.")
    assert short.split("Assistant: ")[0] == whole.split("Assistant: ")[0]
