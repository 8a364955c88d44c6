"""The tokens of a reference, and which of them are scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kveval.errors import PlanError
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.references.reference import Piece, Reference

_OR_NONE = ", or requests.forced_decode: false"


@dataclass(frozen=True, slots=True, eq=False)
class ForcedText:
    """Tokens to force after a prompt.

    Attributes:
        token_ids: int32 [tokens].
        parts: for each token the part it counts for; None if it is not scored.
    """

    token_ids: np.ndarray
    parts: tuple[str | None, ...]


def forced_text(reference: Reference, prompt_format: PromptFormat, opening_ids: Sequence[int] = ()) -> ForcedText:
    """Encodes a reference, lead and answer together, as a model would write them.

    A token belongs to a scored piece if it holds any of its characters: to the first that counts, else to the first.

    Args:
        opening_ids: tokens forced before the reference, such as an empty thinking block.

    Raises:
        PlanError: a scored part is empty or has no token, or the model has no embedding for a token.
    """
    tokenizer = prompt_format.tokenizer
    text, pieces = reference.text, reference.pieces
    encoding = tokenizer.encode_prompt(text) if reference.has_special else tokenizer.encode([text])[0]
    owners = _owners(pieces, encoding.spans)
    if not any(piece.counts for piece in pieces):
        raise PlanError(f"the reference {text!r} has nothing to score; use an answer{_OR_NONE}")
    labels = [None if k is None else pieces[k].part for k in owners]
    lost = [piece.part for piece in pieces if piece.counts and piece.part not in labels]
    if lost:
        raise PlanError(f"the reference {text!r} has no token for {lost[0]!r}; use another text{_OR_NONE}")
    size = max(i for i, part in enumerate(labels) if part is not None) + 1
    ids = np.array([*opening_ids, *encoding.ids[:size]], np.int64)
    beyond = ids[(ids < 0) | (ids >= tokenizer.vocab_size)]
    if beyond.size:
        raise PlanError(
            f"the reference {text!r} has token {beyond[0]}, but the model has only {tokenizer.vocab_size} embeddings; "
            f"use a text without it{_OR_NONE}"
        )
    parts = (*(None for _ in opening_ids), *labels[:size])
    return ForcedText(ids.astype(np.int32), parts)


def _owners(pieces: Sequence[Piece], spans: np.ndarray) -> list[int | None]:
    """Returns for each token the index of the scored piece it belongs to."""
    piece_of_character = [k for k, piece in enumerate(pieces) for _ in piece.text]
    owners: list[int | None] = []
    for first, past in spans:
        # The tokens of one character share its span, and some tokenizers give a space no width.
        held = dict.fromkeys(piece_of_character[first : max(past, first + 1)])
        scored = [k for k in held if pieces[k].part]
        owners.append(next((k for k in scored if pieces[k].counts), scored[0] if scored else None))
    return owners
