"""Prompts and arrival times of a level."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.loads import TOKENS, level

from kveval.load.prompts import arrivals_s, as_text, prompts, warmup_prompts, with_own_beginning
from kveval.tasks.assembly.prompt import PromptFormat


def test_arrivals_are_poisson_and_seeded() -> None:
    many = level(kind="open", concurrency=None, request_rate=10.0, requests=4000)
    times = np.array(arrivals_s(many))
    gaps = np.diff(times)
    assert list(times) == arrivals_s(many)
    assert arrivals_s(many.model_copy(update={"seed": 1})) != list(times)
    assert gaps.mean() == pytest.approx(0.1, rel=0.01)
    # Exponential gaps have a standard deviation of their mean.
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.08)


def test_prompts_are_unique_seeded_and_as_long_as_asked() -> None:
    mixed = level(prompt_lengths=[32, 64, 128], requests=30, warmup_requests=4)
    made = [prompt.tolist() for prompt in prompts(mixed, TOKENS)]
    assert made == [prompt.tolist() for prompt in prompts(mixed, TOKENS)]
    assert Counter(len(prompt) for prompt in made) == {32: 10, 64: 10, 128: 10}
    assert [len(prompt) for prompt in made] != sorted(len(prompt) for prompt in made)
    others = [prompt.tolist() for prompt in warmup_prompts(mixed, TOKENS)]
    others += [prompt.tolist() for prompt in prompts(mixed.model_copy(update={"concurrency": 4}), TOKENS)]
    first_blocks = [tuple(prompt[:16]) for prompt in made + others]
    assert len(set(first_blocks)) == len(first_blocks)
    assert {token for prompt in made for token in prompt} <= set(TOKENS)


def test_own_beginnings_differ_from_prompt_to_prompt_and_leave_the_rest() -> None:
    remake, prompt = with_own_beginning(TOKENS, "salt"), np.arange(64, dtype=np.int32)
    first, second = remake(prompt), remake(prompt)
    assert first[:16].tolist() != second[:16].tolist()
    assert first[16:].tolist() == second[16:].tolist() == prompt[16:].tolist()
    assert with_own_beginning(TOKENS, "salt")(prompt).tolist() == first.tolist()
    assert with_own_beginning(TOKENS, "other")(prompt).tolist() != first.tolist()
    assert len(remake(prompt[:5])) == 5


def test_a_text_keeps_its_length(smollm2: Path) -> None:
    prompt_format = PromptFormat.load(smollm2)
    generator = np.random.default_rng(0)
    kept = 0
    for _ in range(20):
        prompt = generator.choice(np.arange(1000, 40_000, dtype=np.int32), 256)
        made = as_text(prompt_format)(prompt)
        kept += prompt_format.spell(made)[1] == 256
        assert abs(prompt_format.spell(made)[1] - 256) <= 2
    assert kept >= 18
