"""Stage 6: what is forced for each sample, to read how probable the right answer is."""

from __future__ import annotations

from collections.abc import Sequence
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
) -> dict[str, PlannedReferences]:
    """Returns what is forced, by sample_id. A sample without a reference is left out."""
    if not config.requests.forced_decode:
        return {}
    tokenizer = prompts.format.tokenizer
    planned = {}
    for sample in samples:
        references = references_of(tasks.by_name[sample.task], sample, prompts.format, prompts.template)
        if not isinstance(references, NoReference):
            prompt_end = prompts.format.decode(sample.prompt.token_ids()[-_LAST_TOKENS:])
            opening = opening_of(prompt_end, prompts.format.chat_template)
            opening_ids = tokenizer.encode_prompt(opening).ids.tolist() if opening else []
            texts = tuple(forced_text(reference, prompts.format, opening_ids) for reference in references.all)
            planned[sample.sample_id] = PlannedReferences(references, texts, opening)
    return planned
