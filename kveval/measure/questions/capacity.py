"""Finds how many questions a haystack of a task can hold."""

from __future__ import annotations

from kveval.errors import ConfigError
from kveval.tasks.assembly.planned import builder_of, plan_haystack, sample_numbers
from kveval.tasks.builders.base import Haystack
from kveval.tasks.builders.draws import seeded
from kveval.tasks.task import Task

# More needles than this share of a context, and it is a list of facts rather than a haystack.
_MOST_NEEDLES_SHARE = 0.25
# Needles are short and full of numbers, which take more tokens than words.
_CHARACTERS_PER_TOKEN = 3
# So many share a context unless the builder itself says that it holds fewer.
_ALWAYS = 10


def most_that_fit(task: Task, context_length: int, seed: int, samples: int, wanted: int) -> int:
    """Returns the most questions up to `wanted` that one haystack holds, at least 1.

    Needles may fill a quarter of it. Of tasks whose needles fill more, it holds up to ten.
    """
    low, high = 1, min(wanted, builder_of(task).most_questions(context_length) or wanted)
    # Most often, as many as are wanted fit.
    if _fit(task, context_length, seed, samples, high):
        return high
    high -= 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _fit(task, context_length, seed, samples, middle) else (low, middle - 1)
    return max(1, low)


def _fit(task: Task, context_length: int, seed: int, samples: int, questions: int) -> bool:
    numbers = sample_numbers(samples, questions)
    # Which questions are asked of a haystack depends on their numbers.
    for index in sorted({0, len(numbers) // 2, len(numbers) - 1}):
        rng = seeded(task.name, context_length, index, seed)
        try:
            haystack = plan_haystack(f"task {task.name!r}", builder_of(task), numbers[index], 0.0, rng)
        except ConfigError:
            return False
        if questions > _ALWAYS and _needle_tokens(haystack) > _MOST_NEEDLES_SHARE * context_length:
            return False
    return True


def _needle_tokens(haystack: Haystack) -> float:
    return sum(len(needle.lead) + len(needle.text) for needle in haystack.needles) / _CHARACTERS_PER_TOKEN
