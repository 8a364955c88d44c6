"""Chooses the texts that every variant is made to write."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np

from kveval.config.sweep import DivergenceConfig
from kveval.errors import ConfigError, PlanError
from kveval.run.divergence import DivergenceText, TextKind
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.sample import Sample


@dataclass(frozen=True, slots=True, eq=False)
class PlannedText:
    """One text that every variant is made to write after the same prompt.

    Attributes:
        text_id: hash of all that decides a reading of it.
        kind, source, cluster, context_length: as of `DivergenceText`.
        prompt_ids: int32 [prompt_tokens].
        token_ids: int32 [tokens]. None for an output, which the baseline writes first.
        tokens: how many are forced.
        top_k: the baseline's most likely tokens that are read at every step.
    """

    text_id: str
    kind: TextKind
    source: str
    cluster: str
    context_length: int
    prompt_ids: np.ndarray
    token_ids: np.ndarray | None
    tokens: int
    top_k: int

    @property
    def where(self) -> str:
        """Returns what a message calls it."""
        return f"divergence.texts: {self.source}" if self.kind == "text" else f"divergence.tokens: {self.tokens}"

    @property
    def total_tokens(self) -> int:
        return len(self.prompt_ids) + self.tokens

    def row(self) -> DivergenceText:
        """Returns what the run directory keeps of it."""
        return DivergenceText(
            text_id=self.text_id,
            kind=self.kind,
            source=self.source,
            cluster=self.cluster,
            context_length=self.context_length,
            prompt_tokens=len(self.prompt_ids),
            tokens=self.tokens,
        )


def plan_texts(
    config: DivergenceConfig | None, samples: Sequence[Sample], prompt_format: PromptFormat, seed: int
) -> list[PlannedText]:
    """Returns the outputs after the chosen samples, then the user's texts.

    Raises:
        ConfigError: a text cannot be read.
        PlanError: a text is too short, or is there twice.
    """
    if config is None:
        return []
    top_k = min(config.top_k, prompt_format.tokenizer.vocab_size)
    texts = [_output(sample, config.tokens, top_k) for sample in chosen_samples(samples, config.samples, seed)]
    for path in config.texts:
        text = _own_text(path, config.tokens, top_k, prompt_format)
        if any(text.text_id == other.text_id for other in texts):
            raise PlanError(f"divergence.texts: {path} holds the same text as another file; list every text once")
        texts.append(text)
    return texts


def chosen_samples(samples: Sequence[Sample], wanted: int, seed: int) -> list[Sample]:
    """Chooses `wanted` samples. Context lengths take turns, and within a length new haystacks come first.

    Nothing that was answered plays a part: a choice by outcome would bias the divergence.
    """

    def draw(sample: Sample) -> str:
        return hashlib.sha256(f"{seed}/divergence/{sample.sample_id}".encode()).hexdigest()

    by_length: dict[int, dict[str, list[Sample]]] = {}
    for sample in sorted(samples, key=draw):
        by_length.setdefault(sample.context_length, {}).setdefault(sample.haystack_id, []).append(sample)
    in_turn = [
        [sample for sample in chain.from_iterable(zip_longest(*haystacks.values())) if sample is not None]
        for _, haystacks in sorted(by_length.items())
    ]
    return [sample for sample in chain.from_iterable(zip_longest(*in_turn)) if sample is not None][:wanted]


def _output(sample: Sample, tokens: int, top_k: int) -> PlannedText:
    prompt_ids = sample.prompt.token_ids()
    text_id = _text_id(prompt_ids, None, tokens, top_k)
    return PlannedText(
        text_id,
        "output",
        sample.sample_id,
        sample.haystack_id,
        sample.context_length,
        prompt_ids,
        None,
        tokens,
        top_k,
    )


def _own_text(path: Path, tokens: int, top_k: int, prompt_format: PromptFormat) -> PlannedText:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"divergence.texts: {path} cannot be read as UTF-8 text: {error}") from error
    ids = prompt_format.encode(text)
    if prompt_format.bos_id is not None:
        ids = np.concatenate((np.array([prompt_format.bos_id], np.int32), ids))
    if len(ids) < 2:
        raise PlanError(f"divergence.texts: {path} has {len(ids)} tokens; use a text of two or more")
    # Something must come before the first token that is forced.
    forced = min(tokens, len(ids) - 1)
    prompt_ids, token_ids = ids[:-forced], ids[-forced:]
    text_id = _text_id(prompt_ids, token_ids, forced, top_k)
    return PlannedText(text_id, "text", path.name, text_id, len(prompt_ids), prompt_ids, token_ids, forced, top_k)


def _text_id(prompt_ids: np.ndarray, token_ids: np.ndarray | None, tokens: int, top_k: int) -> str:
    digest = hashlib.sha256(f"{tokens}/{top_k}/{len(prompt_ids)}/{token_ids is None}/".encode())
    for ids in (prompt_ids, token_ids):
        if ids is not None:
            digest.update(ids.astype("<i4", copy=False).tobytes())
    return digest.hexdigest()[:16]
