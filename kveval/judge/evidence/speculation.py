"""Shows how many drafted tokens a variant accepted, and what speculation changed in its answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import Comparison, at_levels
from kveval.judge.comparison.judgement import judge_pairs
from kveval.judge.comparison.pairing import VariantPair, pair
from kveval.judge.evidence.drift import shared_positions
from kveval.judge.run_data import RunData
from kveval.run.manifest import VariantRun
from kveval.run.records import unpack_logprobs


@dataclass(frozen=True, slots=True)
class Drafts:
    """Holds what the engine counted while the samples were asked.

    Attributes:
        steps: steps in which the engine drafted tokens.
        tokens, accepted: drafted tokens, and those of them that were accepted.
        acceptance: accepted / tokens. None if nothing was drafted.
        tokens_per_step: 1 + accepted / steps, because every step also yields one token of the model.
        by_position: for each place in the draft, the share of steps in which its token was accepted.
    """

    steps: int
    tokens: int
    accepted: int
    acceptance: float | None
    tokens_per_step: float | None
    by_position: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Parting:
    """Tells how close two outputs were at the first token that differs.

    Greedy speculative decoding is lossless up to numerics. Outputs may differ only if two tokens are almost equally
    likely.

    Attributes:
        samples, different: samples that both answered, and those of them whose output tokens differ.
        median_nats, most_nats: by how much the side without speculation preferred its token to the other. None if no
            sample has the logprobs of both tokens.
    """

    samples: int
    different: int
    median_nats: float | None
    most_nats: float | None


@dataclass(frozen=True, slots=True)
class Speculation:
    """Shows what speculation did to one variant.

    Attributes:
        tokens: most tokens in one draft.
        partner: the same variant without speculation. None if the run has none.
        comparisons: with the partner, overall and by length. They have no verdicts, because it is a control.
    """

    variant: str
    method: str | None
    tokens: int | None
    drafts: Drafts | None
    partner: str | None
    comparisons: tuple[Comparison, ...]
    parting: Parting | None


def speculations(run: RunData, policy: Policy) -> list[Speculation]:
    """Returns one for every baseline or candidate configured to speculate, in the order of the run."""
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
    """Reads the counters of a variant. None if its server counted no drafts."""
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
    """Compares the records of a variant without speculation with those of its partner."""
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
    """Returns our log probability of our token minus that of theirs, where they first differ. None if not listed."""
    place = shared_positions(ours, theirs) - 1
    if place < 0 or not isinstance(packed, str) or ours[place] == theirs[place]:
        return None
    ids, logprobs = unpack_logprobs(packed)
    if place >= len(ids):
        return None
    listed = dict(zip(ids[place].tolist(), logprobs[place].tolist(), strict=True))
    mine, other = listed.get(ours[place]), listed.get(theirs[place])
    return mine - other if mine is not None and other is not None else None


def _compare(run: RunData, variant: str, partner: str, policy: Policy) -> list[Comparison]:
    table = pair(run.samples, {"baseline": run.records[partner], "candidate": run.records[variant]})
    return at_levels(
        judge_pairs([(VariantPair(variant, partner, table, judged=False), None)], policy), "overall", "length"
    )
