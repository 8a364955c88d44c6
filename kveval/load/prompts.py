"""Makes prompts that no prefix cache has seen: random tokens, the same for every variant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from kveval.models.folder import reading
from kveval.models.tokenizer import load_tokenizer
from kveval.run.load_results import Level
from kveval.tasks.assembly.prompt import PromptFormat

# Random streams of one level. A change in one leaves the others unchanged.
_PROMPTS, _WARMUP, _LENGTHS, _ARRIVALS = range(4)

# More than the shortest prefix that any server keeps.
_OWN_TOKENS = 16
# How often a text is cut or filled to its length. Random tokens seldom need more than three attempts.
_MOST_SPELLINGS = 10

Remake = Callable[[np.ndarray], np.ndarray]


@lru_cache(maxsize=4)
def ordinary_tokens(model_dir: Path, trusts_code: bool = False) -> tuple[int, ...]:
    """Returns the ids that spell text. Special tokens are left out: they could end a turn or stand for an image."""
    tokenizer = load_tokenizer(model_dir, trusts_code)
    with reading(model_dir):
        special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
        return tuple(token for token in range(tokenizer.vocab_size) if token not in special)


def _generator(level: Level, stream: int) -> np.random.Generator:
    return np.random.default_rng([level.seed, stream, *level.name.encode()])


def prompt_lengths(level: Level) -> list[int]:
    """Returns the prompt length of every counted request. A mixed level has each length equally often, shuffled."""
    repeats = -(-level.requests // len(level.prompt_lengths))
    lengths = np.array(level.prompt_lengths * repeats)[: level.requests]
    _generator(level, _LENGTHS).shuffle(lengths)
    return [int(length) for length in lengths]


def prompts(level: Level, tokens: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Yields the prompt of every counted request, int32 [prompt_tokens]."""
    generator, ids = _generator(level, _PROMPTS), np.array(tokens, dtype=np.int32)
    for length in prompt_lengths(level):
        yield generator.choice(ids, length)


def warmup_prompts(level: Level, tokens: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Yields the prompts of the requests that are not counted."""
    generator, ids = _generator(level, _WARMUP), np.array(tokens, dtype=np.int32)
    for index in range(level.warmup_requests):
        yield generator.choice(ids, level.prompt_lengths[index % len(level.prompt_lengths)])


def with_own_beginning(tokens: tuple[int, ...], salt: str) -> Remake:
    """Gives every prompt a unique beginning, for a server that takes no ``cache_salt``."""
    ids = np.array(tokens, dtype=np.int32)
    generator = np.random.default_rng(list(salt.encode()))

    def remake(prompt: np.ndarray) -> np.ndarray:
        size = min(_OWN_TOKENS, len(prompt))
        return np.concatenate((generator.choice(ids, size), prompt[size:]))

    return remake


def as_text(prompt_format: PromptFormat) -> Remake:
    """Makes prompts that keep their length as text, for a server that takes no token ids."""

    def remake(prompt: np.ndarray) -> np.ndarray:
        ids = prompt
        for _ in range(_MOST_SPELLINGS):
            spelled = prompt_format.encode(prompt_format.decode(ids))
            if len(spelled) == len(prompt):
                return spelled
            ids = np.concatenate((spelled, prompt[len(spelled) :]))[: len(prompt)]
        return ids

    return remake


def arrivals_s(level: Level) -> list[float]:
    """Returns the seconds at which each request of an open level is sent.

    Gaps of a Poisson process are exponential. They are scaled so that the last request is sent at requests / rate:
    every variant and seed is offered the same load (as vLLM's `benchmarks/serve.py` does).
    """
    if level.request_rate is None:
        raise ValueError(f"{level.name} has no request rate")
    times = np.cumsum(_generator(level, _ARRIVALS).exponential(1.0, level.requests))
    return [float(time) for time in times * (level.requests / level.request_rate / times[-1])]
