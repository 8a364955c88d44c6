"""Finds the first token where two outputs differ, and the probabilities both sides gave to the alternatives."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kveval.errors import ConfigError
from kveval.judge.evidence.drift import shared_positions
from kveval.models.folder import reading
from kveval.run.manifest import Manifest
from kveval.run.records import unpack_logprobs

MOST_ALTERNATIVES = 5


@dataclass(frozen=True, slots=True)
class Alternative:
    """One token that could have come next.

    Attributes:
        text: None without the tokenizer.
        baseline_p, candidate_p: None if not among the alternatives that the engine returned.
        chosen_by: "baseline", "candidate", or "" for neither.
    """

    token_id: int
    text: str | None
    baseline_p: float | None
    candidate_p: float | None
    chosen_by: str


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first token where two outputs differ, counted from 1. Without logprobs there are no alternatives."""

    position: int
    alternatives: tuple[Alternative, ...]


def divergence(
    baseline: tuple[list[int], object], candidate: tuple[list[int], object], texts: TokenTexts
) -> Divergence | None:
    """Compares two outputs, each as (token ids, packed logprobs or None). None if ids are missing or the same."""
    (ours, our_logprobs), (theirs, their_logprobs) = baseline, candidate
    if not ours or not theirs or ours == theirs:
        return None
    position = shared_positions(ours, theirs)
    index = position - 1 if ours[position - 1] != theirs[position - 1] else position
    left, right = _probabilities(our_logprobs, index), _probabilities(their_logprobs, index)
    chosen = {side[index]: name for side, name in ((ours, "baseline"), (theirs, "candidate")) if index < len(side)}
    if not left and not right:
        return Divergence(index + 1, ())
    likely = [*_most_likely(left), *_most_likely(right), *chosen]
    rows = [
        Alternative(token, texts.text(token), left.get(token), right.get(token), chosen.get(token, ""))
        for token in dict.fromkeys(likely)
    ]
    rows.sort(key=lambda row: (-(row.baseline_p or 0.0), -(row.candidate_p or 0.0)))
    return Divergence(index + 1, tuple(rows))


def _probabilities(packed: object, index: int) -> dict[int, float]:
    if not isinstance(packed, str):
        return {}
    ids, logprobs = unpack_logprobs(packed)
    if index >= len(ids):
        return {}
    pairs = zip(ids[index].tolist(), logprobs[index].tolist(), strict=True)
    return {token: math.exp(min(logprob, 0.0)) for token, logprob in pairs if token >= 0}


def _most_likely(probabilities: dict[int, float]) -> list[int]:
    return sorted(probabilities, key=lambda token: -probabilities[token])[:MOST_ALTERNATIVES]


class TokenTexts:
    """Looks up token texts. Every text is None if the model's folder is gone or holds another tokenizer."""

    def __init__(self, manifest: Manifest) -> None:
        model = manifest.variants[manifest.baseline].spec.get("model")
        self._path = Path(model) / "tokenizer.json" if isinstance(model, str) else None
        self._sha256 = manifest.inputs.get("model/tokenizer.json")

    def text(self, token_id: int) -> str | None:
        """Returns the text of one token. None if it is unknown, or part of a character."""
        return self.decoded([token_id])

    def decoded(self, token_ids: list[int]) -> str | None:
        """Returns the text of some tokens. None if it is unknown, or ends in a part of a character."""
        if self._tokenizer is None:
            return None
        try:
            text = str(self._tokenizer.decode(token_ids, skip_special_tokens=False))
        except (OverflowError, TypeError):
            return None
        return None if not text or "\ufffd" in text else text

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        if self._path is None:
            return None
        try:
            with reading(self._path):
                if hashlib.sha256(self._path.read_bytes()).hexdigest() == self._sha256:
                    return Tokenizer.from_file(str(self._path))
        except ConfigError:
            pass
        return None
