"""Prompts of samples: what they share, and how they are hashed."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from kveval.tasks.sample import Chat, Prompt, shared_prefix


def ids(*tokens: int) -> np.ndarray:
    return np.array(tokens, np.int32)


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (ids(1, 2, 3), ids(1, 2, 4), [1, 2]),
        (ids(1, 2, 3), ids(1, 2, 3), [1, 2]),
        (ids(1, 2), ids(1, 2, 3), [1, 2]),
        (ids(1, 2, 3, 4), ids(1, 2, 3), [1, 2]),
        (ids(9), ids(1, 2), []),
        (ids(), ids(1), []),
    ],
)
def test_the_last_token_of_a_prompt_is_always_computed(
    first: np.ndarray, second: np.ndarray, shared: list[int]
) -> None:
    assert shared_prefix(first, second).tolist() == shared


def test_a_prompt_is_its_shared_part_and_its_tail() -> None:
    prompt = Prompt(ids(1, 2, 3), ids(4, 5))
    assert len(prompt) == 5
    assert prompt.token_ids().tolist() == [1, 2, 3, 4, 5]
    assert (prompt.first(2), prompt.first(4), prompt.first(9)) == ([1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5])


def test_the_hash_is_of_little_endian_int32_wherever_a_prompt_is_cut() -> None:
    expected = hashlib.sha256(b"\x01\x00\x00\x00\x02\x01\x00\x00").hexdigest()
    assert Prompt(ids(1), ids(258)).sha256() == Prompt(ids(1, 258), ids()).sha256() == expected


@pytest.mark.parametrize(("tools", "choice", "constrained"), [(0, "required", 0), (1, "auto", 0), (1, "required", 1)])
def test_a_grammar_masks_tokens_only_where_a_call_is_required(tools: int, choice: str, constrained: int) -> None:
    chat = Chat(({"role": "user"},), ({"type": "function"},) * tools, choice)
    assert chat.is_constrained == bool(constrained)
