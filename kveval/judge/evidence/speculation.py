"""Variants that speculate: how much of what they drafted was accepted, and what changed against the same without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.judgement import judge_pairs
from kveval.judge.comparison.pairing import pair
from kveval.judge.comparison.variant_pair import VariantPair
from kveval.judge.evidence.drift import shared_positions
from kveval.judge.run_data import RunData
from kveval.run.logprobs import unpack_logprobs
from kveval.run.manifest import VariantRun


@dataclass(frozen=True, slots=True)
class Drafts:
    """What the engine counted while the samples were asked.

    Attributes:
        steps: in which something was drafted; `tokens` drafted, `accepted` of them.
        acceptance: accepted / drafted; None when nothing was drafted.
        tokens_per_step: 1 + accepted / steps: with the bonus token that every step yields.
        by_position: share of the steps in which the draft's token at this place, counted from 0, was accepted.
    """

    steps: int
    tokens: int
    accepted: int
    acceptance: float | None
    tokens_per_step: float | None
    by_position: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Parting:
    """Where outputs that differ first differ, by the side without speculation.

    Greedy decoding is lossless up to numerics: it may part where two tokens are nearly as likely, and nowhere else.

    Attributes:
        samples: that both answered; `different`: whose output tokens differ.
        median_nats, most_nats: by how much that side preferred its own token to the other's; None where no pair has
            logprobs of both.
    """

    samples: int
    different: int
    median_nats: float | None
    most_nats: float | None


@dataclass(frozen=True, slots=True)
class Speculation:
    """
    Attributes:
        method, tokens: established from the server; tokens of each draft at most.
        drafts: None where the engine counted nothing.
        partner: the variant that does the same without; None when the run has none.
        comparisons: with it, overall and by length; no verdicts: it is a control.
        parting: None without a partner.
    """

    variant: str
    method: str | None
    tokens: int | None
    drafts: Drafts | None
    partner: str | None
    comparisons: tuple[Comparison, ...]
    parting: Parting | None


def speculations(run: RunData, policy: Policy) -> list[Speculation]:
    """One for every baseline or candidate that was to speculate, in the run's order."""
    return [
        _speculation(run, variant, policy)
        for variant in run.manifest.variants.values()
        if variant.role in ("baseline", "candidate") and variant.spec.get("speculative_config")
    ]


def _speculation(run: RunData, variant: VariantRun, policy: Policy) -> Speculation:
    facts, wanted = variant.facts, variant.spec["speculative_config"]
    partner = variant.spec.get("without_speculation")
    known = partner if partner in run.records else None
    return Speculation(
        variant=variant.name,
        method=facts.speculative_method or wanted.get("method"),
        tokens=facts.speculative_tokens,
        drafts=drafts(variant.counters),
        partner=known,
        comparisons=tuple(_compare(run, variant.name, known, policy)) if known else (),
        parting=parting(run.records[known], run.records[variant.name]) if known else None,
    )


def drafts(counters: dict[str, float]) -> Drafts | None:
    """Of a variant's counters; None where its server did not count any."""
    if "spec_drafts" not in counters:
        return None
    steps, tokens, accepted = (
        int(counters.get(name, 0)) for name in ("spec_drafts", "spec_draft_tokens", "spec_accepted_tokens")
    )
    places = sum(name.startswith("spec_accepted_at_") for name in counters)
    at = [counters.get(f"spec_accepted_at_{place}", 0.0) for place in range(places)]
    return Drafts(
        steps=steps,
        tokens=tokens,
        accepted=accepted,
        acceptance=accepted / tokens if tokens else None,
        tokens_per_step=1 + accepted / steps if steps else None,
        by_position=tuple(count / steps for count in at) if steps else (),
    )


def parting(without: pd.DataFrame, speculating: pd.DataFrame) -> Parting:
    """Of two variants' records."""
    first, second = (records[records["outcome"] != "engine_error"] for records in (without, speculating))
    both = first.index.intersection(second.index)
    preferences, different = [], 0
    ours = first.loc[both, ["output_token_ids", "logprobs"]].itertuples(index=False)
    for (tokens, packed), others in zip(ours, second.loc[both, "output_token_ids"], strict=True):
        if tokens == others:
            continue
        different += 1
        preferred = _preference(tokens, others, packed)
        if preferred is not None:
            preferences.append(preferred)
    median, most = (float(np.median(preferences)), max(preferences)) if preferences else (None, None)
    return Parting(len(both), different, median, most)


def _preference(ours: list[int], theirs: list[int], packed: object) -> float | None:
    """Log probability of our token less that of theirs, at the first that differs; None where either is not listed."""
    place = shared_positions(ours, theirs) - 1
    if place < 0 or not isinstance(packed, str) or ours[place] == theirs[place]:
        return None
    ids, logprobs = unpack_logprobs(packed)
    if place >= len(ids):
        return None
    listed = dict(zip(ids[place].tolist(), logprobs[place].tolist(), strict=True))
    mine, other = listed.get(ours[place]), listed.get(theirs[place])
    return mine - other if mine is not None and other is not None else None


def _compare(run: RunData, variant: str, partner: str, policy: Policy) -> Iterator[Comparison]:
    table = pair(run.samples, {"baseline": run.records[partner], "candidate": run.records[variant]})
    for row in judge_pairs([VariantPair(variant, partner, table, judged=False)], policy):
        if row.scope.level in ("overall", "length"):
            yield row
