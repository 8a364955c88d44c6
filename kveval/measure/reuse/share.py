"""Chooses the haystacks of earlier answers that are asked again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain, zip_longest

from kveval.measure.haystacks import HaystackSamples

_LEAST_HAYSTACKS = 2


def asked_again(haystacks: Sequence[HaystackSamples], share: float, run_id: str) -> list[HaystackSamples]:
    """Chooses a share of `haystacks`: at least two, and at least one of each context length.

    Every run chooses others, so that over many nights all are asked again. The same run, resumed, chooses the same.
    """

    def draw(*address: object) -> str:
        return hashlib.sha256("/".join(map(str, (run_id, "again", *address))).encode()).hexdigest()

    cells: dict[tuple[int, str], list[HaystackSamples]] = {}
    for haystack in haystacks:
        cells.setdefault(haystack.cell, []).append(haystack)
    lengths: dict[int, list[list[HaystackSamples]]] = {}
    for cell in sorted(cells, key=lambda one: draw(*one)):
        lengths.setdefault(cell[0], []).append(sorted(cells[cell], key=lambda one: draw(one.haystack_id)))
    # Lengths take turns, and within a length its cells.
    of_length = [_in_turn(lengths[length]) for length in sorted(lengths, key=draw)]
    count = max(_LEAST_HAYSTACKS, len(lengths), round(share * len(haystacks)))
    return _in_turn(of_length)[:count]


def _in_turn(groups: Sequence[Sequence[HaystackSamples]]) -> list[HaystackSamples]:
    return [one for one in chain.from_iterable(zip_longest(*groups)) if one is not None]
