"""Compares what two variants say of every token of one text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# A probability below exp(-700) is 0 in any perplexity.
_LEAST_LOGPROB = -700.0
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TokenDivergence:
    """Holds one value per token of a text, in the order of the text.

    Attributes:
        position: int64 [n], of the token in the text, from 0.
        kld: KL(baseline || candidate) in nats, over the kept tokens and all others as one. By the data processing
            inequality the true divergence is at least this: what moves between two tokens that are not kept is not
            seen.
        same_top: whether both have the same most likely token.
        baseline_logprob, candidate_logprob: of the text's own token.
        tail: the baseline's probability of all tokens that are not kept.
    """

    position: NDArray[np.int64]
    kld: Floats
    same_top: NDArray[np.bool_]
    baseline_logprob: Floats
    candidate_logprob: Floats
    tail: Floats

    @property
    def is_finite(self) -> NDArray[np.bool_]:
        """Returns which tokens have numbers alone. The others are outcomes to count, never numbers."""
        logprobs = (self.baseline_logprob, self.candidate_logprob)
        are_numbers = [np.isfinite(value) for value in (self.kld, self.tail, *logprobs)]
        return np.asarray(np.logical_and.reduce([*are_numbers, *(value > _LEAST_LOGPROB for value in logprobs)]))

    def where(self, chosen: NDArray[np.bool_]) -> TokenDivergence:
        return TokenDivergence(*(getattr(self, name)[chosen] for name in self.__slots__))

    @staticmethod
    def joined(parts: list[TokenDivergence]) -> TokenDivergence:
        """Returns the tokens of several texts, one text after the other."""
        names = TokenDivergence.__slots__
        return TokenDivergence(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def token_divergence(
    *,
    baseline_kept: NDArray[np.float32],
    candidate_kept: NDArray[np.float32],
    baseline_tail: NDArray[np.float32],
    candidate_tail: NDArray[np.float32],
    baseline_logprobs: NDArray[np.float32],
    candidate_logprobs: NDArray[np.float32],
    baseline_argmax: NDArray[np.int32],
    candidate_argmax: NDArray[np.int32],
) -> TokenDivergence:
    """Compares two readings of one text of n tokens.

    Args:
        baseline_kept, candidate_kept: [n, k], logprobs of the same k tokens. The tails are of all others together.
    """
    ours = np.column_stack([baseline_kept, baseline_tail]).astype(np.float64)
    theirs = np.column_stack([candidate_kept, candidate_tail]).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        terms = np.exp(ours) * (ours - theirs)
    # A token that the baseline never says adds nothing, whatever the candidate says of it (0 log 0 = 0).
    terms[np.isneginf(ours) & ~np.isnan(theirs)] = 0.0
    return TokenDivergence(
        position=np.arange(len(ours)),
        kld=terms.sum(axis=1),
        same_top=np.asarray(baseline_argmax == candidate_argmax),
        baseline_logprob=baseline_logprobs.astype(np.float64),
        candidate_logprob=candidate_logprobs.astype(np.float64),
        tail=np.exp(baseline_tail.astype(np.float64)),
    )
