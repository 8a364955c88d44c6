"""What reaches a server with the key, and what is kept without it."""

from __future__ import annotations

import pytest

from kveval.engines.client.access import Access


def test_a_key_is_not_shown() -> None:
    access = Access(api_key="sk-secret")
    assert "sk-secret" not in repr(access)
    assert access.message("Incorrect API key provided: sk-secret.") == "Incorrect API key provided: (key)."
    assert Access().message("text") == "text"


SPELLED = {
    "plain": 'sk-a/b+c:"d\\-0123456789',
    "of a URL": "sk-a/b%2Bc%3A%22d%5C-0123456789",
    "of a URL's query": "sk-a%2Fb%2Bc%3A%22d%5C-0123456789",
    "of JSON": 'sk-a/b+c:\\"d\\\\-0123456789',
}


@pytest.mark.parametrize("spelled", SPELLED.values(), ids=SPELLED)
def test_a_key_is_hidden_however_it_is_spelled_and_wherever_it_was_cut(spelled: str) -> None:
    access = Access(api_key=SPELLED["plain"])
    assert access.data(f"a {spelled} b {spelled}{spelled}") == "a (key) b (key)(key)"
    for length in range(12, len(spelled)):
        assert spelled[:12] not in access.data(f"a {spelled[:length]}")
    assert access.data(f"a {spelled[:12]} b") == "a (key) b"
    for padding in range(470, 510):
        kept = access.message("x" * padding + spelled)
        assert kept == ("x" * padding + "(key)")[:500]


def test_a_key_that_may_be_a_word_stays_in_answers() -> None:
    assert Access(api_key="EMPTY").data("it is EMPTY") == "it is EMPTY"
    assert Access(api_key="EMPTY").message("wrong key EMPTY") == "wrong key (key)"


def test_what_is_kept_of_a_model_holds_no_key() -> None:
    models = {"data": [{"id": "b", "root": "/of/sk-secret", "parent": {"sk-secret": 1}, "max_model_len": 8}]}
    assert Access(api_key="sk-secret").entry_of(models, "b") == {"id": "b", "root": "/of/(key)", "max_model_len": 8}
    assert Access(api_key="sk-secret").entry_of(models, "c") is None


def test_the_entry_of_a_model() -> None:
    models = {"data": [{"id": "a"}, {"id": "b", "root": "/m", "created": 17, "meta": {"n_params": 5, "vocab": 3}}]}
    assert Access().entry_of(models, "b") == {"id": "b", "root": "/m", "n_params": 5}
    assert Access().entry_of(models, "c") is None
    for broken in (None, [], {"data": None}, {"data": ["b"]}, {"data": {"id": "b"}}):
        assert Access().entry_of(broken, "b") is None
