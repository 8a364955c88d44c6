"""Compares what two variants say of every token of one text.

The engine computes log-softmax in float32 from the model's logits. With finite logits it gives no probability of 0: a
logit 1,000 below the top has the logprob -1,000. So -inf is a logit of -inf, such as of a token that the model masks.
One logit that is NaN or +inf makes every logprob of its step NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kveval.judge.divergence.estimate import Floats


@dataclass(frozen=True, slots=True)
class TokenDivergence:
    """Holds one value per token of a text, in the order of the text.

    Attributes:
        position: int64 [n], of the token in the text, from 0.
        kld: KL(baseline || variant) in nats, over the kept tokens and all others as one. By the data processing
            inequality the true divergence is at least this: what moves between two tokens that are not kept is not
            seen. inf where the variant gives probability 0 to a token that the baseline gives more, NaN where a
            probability is not a number.
        same_top: whether both have the same most likely token. False where one has none.
        baseline_logprob, variant_logprob: of the text's own token.
        tail: the baseline's probability of all tokens that are not kept.
    """

    position: NDArray[np.int64]
    kld: Floats
    same_top: NDArray[np.bool_]
    baseline_logprob: Floats
    variant_logprob: Floats
    tail: Floats

    @property
    def is_undefined_baseline(self) -> NDArray[np.bool_]:
        """Returns where the baseline's own probabilities are not numbers."""
        return np.asarray(np.isnan(self.baseline_logprob) | np.isnan(self.tail))

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
    variant_kept: NDArray[np.float32],
    baseline_tail: NDArray[np.float32],
    variant_tail: NDArray[np.float32],
    baseline_logprobs: NDArray[np.float32],
    variant_logprobs: NDArray[np.float32],
    baseline_argmax: NDArray[np.int32],
    variant_argmax: NDArray[np.int32],
) -> TokenDivergence:
    """Compares two readings of one text of n tokens.

    Args:
        baseline_kept, variant_kept: [n, k], logprobs of the same k tokens. The tails are of all others together.
    """
    ours = np.column_stack([baseline_kept, baseline_tail]).astype(np.float64)
    theirs = np.column_stack([variant_kept, variant_tail]).astype(np.float64)
    our_token, their_token = baseline_logprobs.astype(np.float64), variant_logprobs.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        terms = np.exp(ours) * (ours - theirs)
    terms[np.isneginf(theirs) & ~np.isnan(ours)] = np.inf
    # A token that the baseline never says adds nothing, whatever the variant says of it (0 log 0 = 0).
    terms[np.isneginf(ours) & ~np.isnan(theirs)] = 0.0
    kld = terms.sum(axis=1)
    # The text's own token may be one of those that were not kept.
    kld[np.isneginf(their_token) & (our_token > -np.inf) & ~np.isnan(kld)] = np.inf
    is_number = ~np.isnan(our_token) & ~np.isnan(their_token)
    kld[~is_number] = np.nan
    return TokenDivergence(
        position=np.arange(len(ours)),
        kld=kld,
        same_top=np.asarray((baseline_argmax == variant_argmax) & is_number),
        baseline_logprob=our_token,
        variant_logprob=their_token,
        tail=np.exp(baseline_tail.astype(np.float64)),
    )
