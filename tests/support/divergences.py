"""Readings of a synthetic run, as the stage writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.special import log_softmax

from kveval.run.divergence import DivergenceFolder, DivergenceText, DivergenceTexts, Reading, TextKind, ids_digest

VOCABULARY, KEPT = 80, 20


def add_divergence(
    run: Path,
    noise: Mapping[str, float],
    *,
    baseline: str = "bf16",
    texts: int = 8,
    tokens: int = 100,
    growth: float = 0.0,
    kind: TextKind = "output",
    lengths: tuple[int, ...] = (2048, 8192),
    sources: tuple[str, ...] = (),
) -> list[DivergenceText]:
    """Writes readings of `texts` texts into a run: of the baseline, and of each variant in `noise`.

    Args:
        noise: standard deviation of what is added to the baseline's logits; `growth` adds to it along a text.
        sources: the samples after whose prompts the outputs were written.
    """
    folder = DivergenceFolder(run)
    rows = [
        DivergenceText(
            text_id=f"{number:016x}" if kind == "output" else f"{number:015x}f",
            kind=kind,
            source=sources[number] if sources else f"sample-{number}" if kind == "output" else f"text-{number}.txt",
            cluster=f"{kind}-{number}",
            context_length=lengths[number % len(lengths)],
            prompt_tokens=lengths[number % len(lengths)],
            tokens=tokens,
        )
        for number in range(texts)
    ]
    folder.write_texts(DivergenceTexts(texts=(*folder.texts(), *rows)))
    for number, row in enumerate(rows):
        generator = np.random.default_rng([number, len(kind)])
        logits = 3 * generator.standard_normal((tokens, VOCABULARY))
        ours = log_softmax(logits, axis=1)
        text = ours.argmax(axis=1).astype(np.int32)
        ids = np.argsort(-ours, axis=1)[:, :KEPT].astype(np.int32)
        folder.write(baseline, row.text_id, reading_of(ours, text, ids, is_baseline=True))
        for name, deviation in noise.items():
            moved = generator.standard_normal(logits.shape)
            moved *= deviation * (1 + growth * np.arange(tokens) / tokens)[:, None]
            theirs = log_softmax(logits + moved, axis=1)
            folder.write(name, row.text_id, reading_of(theirs, text, ids, is_baseline=False))
    return rows


def reading_of(logprobs: np.ndarray, text: np.ndarray, ids: np.ndarray, *, is_baseline: bool) -> Reading:
    rows = np.arange(len(text))
    rest = logprobs.copy()
    rest[rows[:, None], ids] = -np.inf
    return Reading(
        token_ids=text,
        kept_ids=ids if is_baseline else ids[:0],
        kept_logprobs=logprobs[rows[:, None], ids].astype(np.float32),
        logprobs=logprobs[rows, text].astype(np.float32),
        tail_logprobs=np.log(np.exp(rest).sum(axis=1)).astype(np.float32),
        argmax_ids=logprobs.argmax(axis=1).astype(np.int32),
        ids_sha256=ids_digest(text, ids),
        seconds=np.array([0.5]),
    )
