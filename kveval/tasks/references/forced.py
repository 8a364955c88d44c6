"""The tokens of a reference, and which of them are scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kveval.errors import PlanError
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.references.reference import Piece, Reference


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
        PlanError: a scored piece is empty or has no token, or the model has no embedding for a token.
    """
    special = [piece for piece in reference.pieces if piece.is_special]
    plain = reference.pieces[len(special) :]
    if any(piece.is_special for piece in plain):
        raise PlanError(f"the reference {reference.text!r} has special tokens after its text; use them before it only")
    tokenizer = prompt_format.tokenizer
    ids = list(opening_ids)
    labels: list[str | None] = [None for _ in opening_ids]
    for piece in special:
        encoded = tokenizer.encode_prompt(piece.text)
        ids += encoded
        labels += [piece.part for _ in encoded]
    [encoding] = tokenizer.encode(["".join(piece.text for piece in plain)])
    owners = _owners(plain, encoding.spans)
    ids += [int(token) for token in encoding.ids]
    labels += [None if k is None else plain[k].part for k in owners]
    _check(reference, plain, owners)
    beyond = [token for token in ids if not 0 <= token < tokenizer.vocab_size]
    if beyond:
        raise PlanError(
            f"the reference {reference.text!r} has token {beyond[0]}, but the model has only {tokenizer.vocab_size} "
            "embeddings; use a text without it"
        )
    size = max(i for i, part in enumerate(labels) if part is not None) + 1
    return ForcedText(np.array(ids[:size], np.int32), tuple(labels[:size]))


def _owners(pieces: Sequence[Piece], spans: np.ndarray) -> list[int | None]:
    """Returns for each token the index of the scored piece it belongs to."""
    owner_of_character = [k for k, piece in enumerate(pieces) for _ in piece.text]
    owners: list[int | None] = []
    for first, past in spans:
        # The tokens of one character share its span, and some tokenizers give a space no width.
        held = owner_of_character[first : max(past, first + 1)]
        scored = [k for k in range(held[0], held[-1] + 1) if pieces[k].part] if held else []
        owners.append(next((k for k in scored if pieces[k].counts), scored[0] if scored else None))
    return owners


def _check(reference: Reference, pieces: Sequence[Piece], owners: Sequence[int | None]) -> None:
    counting = [k for k, piece in enumerate(pieces) if piece.counts]
    if not counting:
        raise PlanError(f"the reference {reference.text!r} has nothing to score; use an answer")
    for k in counting:
        if k not in owners:
            raise PlanError(f"the reference {reference.text!r} has no token for {pieces[k].text!r}; use another text")
