"""How many tokens a server takes in one request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kveval.config.load import LoadConfig
from kveval.engines.smoke import OUTPUT_TOKENS
from kveval.errors import PlanError
from kveval.measure.divergence.texts import PlannedText
from kveval.tasks.sample import Sample

SPARE_TOKENS = 8
"""Left free above every prompt and its output: a server may add tokens, such as one for the beginning of the text."""
# Smoke questions also send a plain text. It is shorter than this in any tokenizer.
_LEAST_MODEL_LEN = 512


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """The most tokens of a prompt and its output together that a variant's server takes.

    Attributes:
        name: what messages call it, such as ``max-model-len of fp8``.
    """

    name: str
    tokens: int

    def check(self, where: str, prompt_tokens: int, output_tokens: int) -> None:
        """Raises PlanError: a prompt and its output do not fit. `where` is the key or the row that decides them."""
        most = self.tokens - output_tokens - SPARE_TOKENS
        if prompt_tokens > most:
            instead = f"use: up to {most} prompt tokens" if most > 0 else "the output alone does not fit"
            raise PlanError(
                f"{where}: {prompt_tokens} prompt tokens and {output_tokens} output tokens do not fit {self.name} "
                f"({self.tokens} tokens); {instead}"
            )


def check_load_fits(load: LoadConfig, limits: Iterable[TokenLimit]) -> None:
    """Raises PlanError: a prompt under load with its output does not fit one of `limits`."""
    for limit in limits:
        limit.check("load.prompt_lengths", max(load.prompt_lengths), load.output_tokens)


def longest_request(
    samples: Iterable[Sample],
    load: LoadConfig | None,
    limits: Sequence[TokenLimit],
    forced_tokens: Mapping[str, int],
    texts: Iterable[PlannedText] = (),
    *,
    least: int = 0,
) -> int:
    """Returns the tokens of the longest prompt and its output together, and no fewer than smoke questions need.

    Args:
        forced_tokens: of the longest text that is forced for a sample, by its id.
        texts: what every variant is made to write.
        least: what the servers of the run were started with before.
    """
    longest = max(
        len(sample.prompt) + max(sample.max_output_tokens, OUTPUT_TOKENS, forced_tokens.get(sample.sample_id, 0))
        for sample in samples
    )
    longest = max(longest, load.longest_tokens if load else 0, *(text.total_tokens for text in texts))
    # Only a sample's forced text may be too long for a limit: the sample then has no expected score.
    return min([max(longest + SPARE_TOKENS, _LEAST_MODEL_LEN, least), *(limit.tokens for limit in limits)])
