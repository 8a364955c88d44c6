"""Draws filler for a haystack: pieces of a source, tokenized once, with the places where they may be cut."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from kveval.errors import PlanError
from kveval.tasks.assembly.tokenizer import Encoding, Tokenizer
from kveval.tasks.builders.sources import Cut, TextSource

_BATCH_PIECES = 64
_LEAD_TOKENS = 16  # the first piece may lose its separator
_WHITESPACE = np.array([ord(c) for c in " \n\t"], np.uint32)
_SENTENCE_END = np.array([ord(c) for c in ".!?"], np.uint32)
_CLOSING = np.array([ord(c) for c in "\"')]”’"], np.uint32)


class FillerTokens(NamedTuple):
    """Filler of one haystack.

    Attributes:
        ids: int32 [tokens].
        cuts: int8 [tokens], the `Cut` before each token.
    """

    ids: np.ndarray
    cuts: np.ndarray


class Filler:
    """A source with one tokenizer. Each piece is tokenized at most once."""

    def __init__(self, source: TextSource, tokenizer: Tokenizer) -> None:
        self.source = source
        self._tokenizer = tokenizer
        self._pieces: dict[int, FillerTokens] = {}

    def draw(self, rng: random.Random, tokens: int, forbidden: Collection[str], *, opens_context: bool) -> FillerTokens:
        """Draws whole pieces in random order until they have at least `tokens` tokens.

        Args:
            forbidden: lower-case strings that must not occur in the text. Pieces that hold one are left out.
            opens_context: the filler is the first thing in the context, so it begins without a separator.

        Raises:
            PlanError: the source has too little text; text is never repeated.
        """
        tokens += _LEAD_TOKENS
        order = self._tokenized(self.source.order(rng))
        chosen: list[int] = []
        total = 0
        while True:
            while total < tokens:
                index = next(order, None)
                if index is None:
                    raise PlanError(
                        f"haystack style {self.source.name!r} ends after {total} tokens of this tokenizer and {tokens} "
                        "are needed; text is never repeated, so use a longer style or a shorter context_length"
                    )
                chosen.append(index)
                total += len(self._pieces[index].ids)
            unwanted = self._unwanted(chosen, forbidden)
            if not unwanted:
                break
            chosen = [index for index in chosen if index not in unwanted]
            total = sum(len(self._pieces[index].ids) for index in chosen)
        runs = [self._pieces[index] for index in chosen]
        if opens_context and runs:
            text = self.source.text(chosen[0]).lstrip()
            runs[0] = _cut_places(text, self._tokenizer.encode([text])[0])
        return FillerTokens(np.concatenate([run.ids for run in runs]), np.concatenate([run.cuts for run in runs]))

    def _tokenized(self, order: Iterator[int]) -> Iterator[int]:
        while batch := list(islice(order, _BATCH_PIECES)):
            missing = [index for index in batch if index not in self._pieces]
            texts = [self.source.text(index) for index in missing]
            for index, text, encoding in zip(missing, texts, self._tokenizer.encode(texts), strict=True):
                self._pieces[index] = _cut_places(text, encoding)
            yield from batch

    def _unwanted(self, chosen: list[int], forbidden: Collection[str]) -> set[int]:
        texts = [self.source.text(index).lower() for index in chosen]
        joined = "".join(texts)
        places = [
            match.start() for text in forbidden if text in joined for match in re.finditer(re.escape(text), joined)
        ]
        ends = np.cumsum([len(text) for text in texts])
        return {chosen[i] for i in np.searchsorted(ends, places, side="right")}


def _cut_places(text: str, encoding: Encoding) -> FillerTokens:
    """Marks tokens before which a text may be cut: never inside a character, best at the end of a sentence."""
    spans = encoding.spans
    cuts = np.zeros(len(spans), np.int8)
    if len(spans) == 0:
        return FillerTokens(encoding.ids, cuts)
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    ends = spans[:-1, 1]
    whole = spans[1:, 0] >= ends
    here = np.minimum(ends, len(codes) - 1)
    last, last_but_one = codes[np.maximum(ends - 1, 0)], codes[np.maximum(ends - 2, 0)]
    word = whole & np.isin(codes[here], _WHITESPACE) & ~np.isin(last, _WHITESPACE)
    closed = np.isin(last, _SENTENCE_END) | (np.isin(last, _CLOSING) & np.isin(last_but_one, _SENTENCE_END))
    line = codes[here] == ord("\n")
    after = codes[np.minimum(ends + 1, len(codes) - 1)]
    sentence = word & (line | (closed & ~((after >= ord("a")) & (after <= ord("z")))))
    cuts[1:] = np.where(sentence, Cut.SENTENCE, np.where(word, Cut.WORD, np.where(whole, Cut.CHARACTER, Cut.NEVER)))
    cuts[0] = Cut.PIECE
    return FillerTokens(encoding.ids, cuts)
