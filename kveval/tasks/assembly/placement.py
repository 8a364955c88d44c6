"""Decides where needles stand in the filler, in tokens. Pure functions of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kveval.tasks.assembly.filler import FillerTokens
from kveval.tasks.builders.sources import Cut

SLACK_TOKENS = 8
"""The most tokens by which a prompt may be shorter than its context_length. It is never longer."""

DEPTH_TOLERANCE_PERCENT = 1.0
"""The most by which a needle may stand away from the asked depth, to keep sentences whole."""


class Placed(NamedTuple):
    """A needle in its place: `start` tokens of context stand before it, and it is `tokens` long."""

    start: int
    tokens: int

    def depth_percent(self, context_tokens: int) -> float:
        """Returns 100 * tokens before the needle / tokens of context without the needle, in [0, 100]."""
        return round(100 * self.start / max(context_tokens - self.tokens, 1), 3)


def opener(depths_percent: Sequence[float], context_tokens: int) -> int | None:
    """Returns the index of the needle that stands at the very start of the context; None if filler does."""
    if not depths_percent:
        return None
    first = min(range(len(depths_percent)), key=lambda k: depths_percent[k])
    nearly_nothing = min(2.0, DEPTH_TOLERANCE_PERCENT / 200 * context_tokens)
    return first if depths_percent[first] / 100 * context_tokens < nearly_nothing else None


def end_of_filler(cuts: np.ndarray, capacity_tokens: int) -> int:
    """Counts the filler tokens to use: `capacity_tokens` or up to 8 less, to end at a sentence or a word.

    Args:
        cuts: int8 [more than capacity_tokens], the `Cut` before each token of filler.
    """
    low = max(capacity_tokens - SLACK_TOKENS, 0)
    window = cuts[low : capacity_tokens + 1]
    best = min(int(window.max()), Cut.SENTENCE)
    return low + int(np.flatnonzero(window >= best)[-1])


def positions(
    depths_percent: Sequence[float],
    tokens: Sequence[int],
    context_tokens: Sequence[int],
    cuts: np.ndarray,
    least_cut: Cut,
    opens: int | None,
) -> list[tuple[int, int]]:
    """Returns (filler tokens before it, needle index) of every needle, in order of place.

    Args:
        depths_percent: asked of each needle.
        tokens: length of each needle.
        context_tokens: length of the context in which each needle is asked for, all needles included.
        cuts: int8 [filler tokens + 1], the `Cut` before each token of filler and after the last.
        opens: index of the needle that stands at the very start, if one does.
    """
    placed: list[tuple[int, int]] = []
    low, before = (1 if opens is None else 0), 0
    for k in sorted(range(len(tokens)), key=lambda k: (k != opens, depths_percent[k])):
        span = context_tokens[k] - tokens[k]
        target = depths_percent[k] / 100 * span - before
        tolerance = DEPTH_TOLERANCE_PERCENT / 100 * span
        low = 0 if k == opens else _cut_near(cuts, target, tolerance, min(low, len(cuts) - 1), least_cut)
        placed.append((low, k))
        before += tokens[k]
    return placed


def _cut_near(cuts: np.ndarray, target: float, tolerance: float, low: int, least_cut: Cut) -> int:
    """Finds the place nearest `target`, from `low`: a sentence end within the tolerance, else the least cut."""
    target = min(max(target, low), len(cuts) - 1)
    first, last = max(low, int(np.ceil(target - tolerance))), int(target + tolerance)
    for kind in (max(Cut.SENTENCE, least_cut), least_cut):
        places = np.flatnonzero(cuts[first : last + 1] >= kind) + first
        if len(places):
            return int(places[np.argmin(np.abs(places - target))])
    places = np.flatnonzero(cuts[low:] >= least_cut) + low
    return int(places[np.argmin(np.abs(places - target))]) if len(places) else len(cuts) - 1


def interleave(
    filler: FillerTokens, planted: Sequence[np.ndarray], places: Sequence[tuple[int, int]], end: int
) -> tuple[np.ndarray, dict[int, Placed]]:
    """Builds the context of `end` filler tokens and all needles, and says where each needle is in it."""
    parts: list[np.ndarray] = []
    placed: dict[int, Placed] = {}
    used, before = 0, 0
    for at, k in places:
        parts += [filler.ids[used:at], planted[k]]
        placed[k] = Placed(at + before, len(planted[k]))
        used, before = at, before + len(planted[k])
    return np.concatenate([*parts, filler.ids[used:end]]), placed
