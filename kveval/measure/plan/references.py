"""Stage 6: what is forced for each sample, to read how probable the right answer is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kveval.config.sweep import SweepConfig
from kveval.measure.plan.prompts import PlannedPrompts
from kveval.measure.plan.tasks import PlannedTasks
from kveval.tasks.references.forced import ForcedText, forced_text
from kveval.tasks.references.of_sample import references_of
from kveval.tasks.references.opening import opening_of
from kveval.tasks.references.reference import NoReference, References
from kveval.tasks.sample import Sample

# Enough for the opening of an answer.
_LAST_TOKENS = 24


@dataclass(frozen=True, slots=True)
class PlannedReferences:
    """What is forced for one sample.

    Attributes:
        texts: the tokens of each text in `references`, in the order of `References.all`.
        opening: what each text begins with, such as an empty block of thinking.
    """

    references: References
    texts: tuple[ForcedText, ...]
    opening: str

    @property
    def most_tokens(self) -> int:
        """Returns the tokens of the longest text."""
        return max(len(text.token_ids) for text in self.texts)

    @property
    def tokens(self) -> int:
        """Returns the tokens of all texts together."""
        return sum(len(text.token_ids) for text in self.texts)


def plan_references(
    config: SweepConfig, samples: Sequence[Sample], tasks: PlannedTasks, prompts: PlannedPrompts
) -> tuple[dict[str, PlannedReferences], dict[str, str]]:
    """Returns what is forced, by sample_id; and for every other sample why nothing is, by sample_id too."""
    if not config.requests.forced_decode:
        return {}, {sample.sample_id: "requests.forced_decode is false" for sample in samples}
    tokenizer = prompts.format.tokenizer
    planned, lacking = {}, {}
    for sample in samples:
        references = references_of(tasks.by_name[sample.task], sample, prompts.format, prompts.template)
        if isinstance(references, NoReference):
            lacking[sample.sample_id] = references.why
        else:
            prompt_end = prompts.format.decode(sample.prompt.token_ids()[-_LAST_TOKENS:])
            opening = opening_of(prompt_end, prompts.format.chat_template)
            opening_ids = tokenizer.encode_prompt(opening).ids.tolist() if opening else []
            texts = tuple(forced_text(reference, prompts.format, opening_ids) for reference in references.all)
            planned[sample.sample_id] = PlannedReferences(references, texts, opening)
    return planned, lacking


def why_without(samples: Iterable[Sample], lacking: Mapping[str, str]) -> str | None:
    """Says why samples have no reference: 'no one right text', or '12 of 40: no one right text'. None if all have one.

    Args:
        lacking: the reason of each sample without a reference, by its id.
    """
    ids = [sample.sample_id for sample in samples]
    reasons = Counter(lacking[one] for one in ids if one in lacking)
    if reasons.total() == len(ids) and len(reasons) == 1:
        return next(iter(reasons))
    return "; ".join(f"{count} of {len(ids)}: {why}" for why, count in reasons.most_common()) or None
