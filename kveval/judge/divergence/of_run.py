"""Compares every variant of a run with its baseline, along the texts that all were made to write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kveval.errors import RunDirectoryError
from kveval.judge.divergence.summary import (
    DivergenceSummary,
    Growth,
    PositionRange,
    by_position,
    growth,
    summarize,
)
from kveval.judge.divergence.tokens import TokenDivergence, token_divergence
from kveval.judge.run_data import RunData
from kveval.run.divergence import DivergenceFolder, DivergenceText, Reading, TextKind
from kveval.run.manifest import Role

_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class VariantDivergence:
    """Shows how far one variant moves from the baseline along texts of one kind.

    Attributes:
        planned, compared: texts, and those that both sides have.
        broken: texts left out because a file is broken, or is a reading of something else.
        kept: the most likely tokens of the baseline that were read at every step.
        summary: None if no token can be compared.
        by_length: context length and its summary, the shortest first.
        seconds_per_1000, bytes_per_token: what the variant's readings took.
    """

    variant: str
    role: Role
    kind: TextKind
    planned: int
    compared: int
    broken: int
    kept: int | None
    summary: DivergenceSummary | None
    by_position: tuple[PositionRange, ...]
    by_length: tuple[tuple[int, DivergenceSummary], ...]
    growth: Growth | None
    seconds_per_1000: float | None
    bytes_per_token: float | None


def divergences(run: RunData) -> list[VariantDivergence]:
    """Returns one for every variant but the baseline and every kind of text, in the order of the run.

    Raises:
        RunDirectoryError: the list of texts is broken.
    """
    folder = DivergenceFolder(run.path)
    texts = folder.texts()
    kinds: tuple[TextKind, ...] = ("output", "text")
    return [
        _divergence(folder, run.manifest.baseline, variant.name, variant.role, kind, of_kind)
        for kind in kinds
        if (of_kind := [text for text in texts if text.kind == kind])
        for variant in run.baseline_first[1:]
    ]


def _divergence(
    folder: DivergenceFolder, baseline: str, variant: str, role: Role, kind: TextKind, texts: Sequence[DivergenceText]
) -> VariantDivergence:
    parts: list[tuple[DivergenceText, TokenDivergence]] = []
    broken, seconds, size, tokens = 0, 0.0, 0, 0
    kept: int | None = None
    for text in texts:
        try:
            ours, theirs = folder.read(baseline, text.text_id), folder.read(variant, text.text_id)
        except RunDirectoryError:
            broken += 1
            continue
        if ours is None or theirs is None:
            continue
        if not _are_of_the_same_tokens(ours, theirs):
            broken += 1
            continue
        parts.append((text, _compare(ours, theirs)))
        kept = ours.kept_logprobs.shape[1]
        seconds += float(theirs.seconds[0])
        size += folder.size_bytes(variant, text.text_id) or 0
        tokens += len(theirs.token_ids)
    joined = TokenDivergence.joined([part for _, part in parts]) if parts else None
    clusters = _repeated(parts, lambda text: text.cluster)
    lengths = _repeated(parts, lambda text: text.context_length)
    by_length = (
        (int(length), summarize(joined.where(lengths == length), clusters[lengths == length]))
        for length in np.unique(lengths)
        if joined is not None
    )
    names = _repeated(parts, lambda text: text.text_id)
    return VariantDivergence(
        variant,
        role,
        kind,
        len(texts),
        len(parts),
        broken,
        kept,
        None if joined is None else summarize(joined, clusters),
        () if joined is None else tuple(by_position(joined, clusters)),
        tuple((length, summary) for length, summary in by_length if summary is not None),
        None if joined is None else growth(joined, names, clusters, confidence=_CONFIDENCE),
        1000 * seconds / tokens if tokens else None,
        size / tokens if tokens else None,
    )


def _are_of_the_same_tokens(ours: Reading, theirs: Reading) -> bool:
    is_same = len(ours.kept_ids) > 0 and np.array_equal(ours.ids_sha256, theirs.ids_sha256)
    return is_same and ours.kept_logprobs.shape == theirs.kept_logprobs.shape


def _compare(ours: Reading, theirs: Reading) -> TokenDivergence:
    return token_divergence(
        baseline_kept=ours.kept_logprobs,
        candidate_kept=theirs.kept_logprobs,
        baseline_tail=ours.tail_logprobs,
        candidate_tail=theirs.tail_logprobs,
        baseline_logprobs=ours.logprobs,
        candidate_logprobs=theirs.logprobs,
        baseline_argmax=ours.argmax_ids,
        candidate_argmax=theirs.argmax_ids,
    )


def _repeated(
    parts: Sequence[tuple[DivergenceText, TokenDivergence]], value: Callable[[DivergenceText], str | int]
) -> NDArray[np.generic]:
    """Returns a value of each text, once for each of its tokens."""
    return np.repeat([value(text) for text, _ in parts], [len(tokens.kld) for _, tokens in parts])
