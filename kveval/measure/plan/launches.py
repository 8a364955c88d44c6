"""Stage 6: what every launch is told: which samples it asks, and how long a request may be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kveval.engines.smoke import OUTPUT_TOKENS
from kveval.measure.haystacks import group_by_haystack
from kveval.measure.plan.limits import SPARE_TOKENS
from kveval.measure.plan.variants import PlannedVariants
from kveval.tasks.sample import Sample

# Smoke questions also send a plain text. It is shorter than this in any tokenizer.
_LEAST_MODEL_LEN = 512


@dataclass(frozen=True, slots=True)
class Launches:
    """What is the same for all launches, and what the A/A run leaves out.

    Attributes:
        aa_sample_ids: what the A/A run asks: whole haystacks.
        max_model_len: tokens of the longest prompt and its output together, and no fewer than smoke questions need.
    """

    aa_sample_ids: frozenset[str]
    max_model_len: int


def plan_launches(variants: PlannedVariants, samples: Sequence[Sample]) -> Launches:
    load = variants.config.load
    longest = max(len(sample.prompt) + max(sample.max_output_tokens, OUTPUT_TOKENS) for sample in samples)
    longest = max(longest, load.longest_tokens if load else 0)
    least = min([_LEAST_MODEL_LEN, *(limit.tokens for limit in variants.limits)])
    return Launches(
        aa_sample_ids=frozenset(_aa_sample_ids(samples, variants.config.aa_share)),
        max_model_len=max(longest + SPARE_TOKENS, least),
    )


def _aa_sample_ids(samples: Iterable[Sample], share: float) -> list[str]:
    # Whole haystacks, so that the A/A run shares prefill as the baseline does. The same ones on every machine.
    haystacks = sorted(group_by_haystack(samples), key=lambda haystack: haystack.haystack_id)
    asked = haystacks[: max(1, round(share * len(haystacks)))] if share > 0 else []
    return [sample.sample_id for haystack in asked for sample in haystack.samples]
