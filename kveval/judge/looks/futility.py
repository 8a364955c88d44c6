"""Whether it is still worth while to go on asking."""

from __future__ import annotations

import math

from scipy import special

LEAST_CHANCE = 0.05
"""Below this chance of a decided verdict at the last look, the questions that are left are not asked. Stopping costs no
error rate: it gives neither a pass nor a fail."""


def chance_to_decide(
    delta: float, se: float, clusters: int, *, share: float, margin: float, last_confidence: float
) -> float:
    """Returns the chance that the last look of the plan passes or fails, from what was seen so far.

    The mean of the questions that are left is predicted from the mean so far, with the error of both ("predictive
    power", Spiegelhalter, Freedman and Blackburn, "Monitoring clinical trials: conditional or predictive power?",
    Controlled Clinical Trials 1986). The correction for many rows is left out, which makes the chance larger.

    Args:
        delta, se, clusters: the difference so far.
        share: of the planned questions that were asked, below 1.
        last_confidence: of the last look.
    """
    t = float(special.stdtrit(max(1.0, clusters / share - 1), 0.5 + last_confidence / 2))
    half, change = t * se * math.sqrt(share), se * math.sqrt(1 - share)
    distances = delta + margin - half, -margin - half - delta
    if change == 0:
        return float(max(distances) > 0)
    return float(sum(special.ndtr(distance / change) for distance in distances))
