"""Encodes text in pieces so that the joined pieces decode to the joined text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from kveval.errors import PlanError

_PROBE = ("Alpha beta, 12 (gamma)!", " The dêlta — “epsilon” x_1.", "\n\nZeta:\n- eta\n", "-thêta 7654321", "  iota")

_GUARDS = ("", "\x02", "\n", ".")


class Encoding(NamedTuple):
    """Tokens of one text.

    Attributes:
        ids: int32 [tokens].
        spans: int32 [tokens, 2], first and past-last character of each token in the text. Tokens that are parts of
            one character share its span.
    """

    ids: np.ndarray
    spans: np.ndarray


class Tokenizer(Protocol):
    """What `PromptFormat` needs of a tokenizer."""

    name: str
    vocab_size: int
    special_ids: frozenset[int]

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Encodes each text. Special tokens spelled in it stay text."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Decodes tokens to their exact text, special ones included."""
        ...

    def encode_prompt(self, text: str) -> Encoding:
        """Encodes a whole prompt as a server does. Special tokens in it are special; none are added."""
        ...

    def __hash__(self) -> int: ...


class FastTokenizer:
    """A Hugging Face fast tokenizer, used without transformers, so that nothing is added, stripped or cleaned up.

    Some tokenizers (Llama 2's) put a space before whatever they are given. A guard text in front of each piece takes
    that space; its tokens are cut off again.

    Args:
        backend: a `tokenizers.Tokenizer` owned by this object alone.
        vocab_size: number of ids the model has embeddings for.

    Raises:
        PlanError: no guard makes pieces decode to the text they were made of.
    """

    def __init__(self, backend: Any, vocab_size: int, name: str) -> None:
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        self._backend = backend
        self.vocab_size = vocab_size
        added = backend.get_added_tokens_decoder()
        self.special_ids = frozenset(token for token, added_token in added.items() if added_token.special)
        self.name = name
        for guard in _GUARDS:
            self._guard = guard
            self._guard_ids = backend.encode(guard, add_special_tokens=False).ids
            self._guard_spelled: str = backend.decode(self._guard_ids, skip_special_tokens=False)
            if self._spells_probe():
                return
        raise PlanError(
            f"tokenizer {name!r} changes text that is encoded in pieces, so prompts cannot be assembled exactly"
        )

    def _spells_probe(self) -> bool:
        encodings = self._backend.encode_batch([self._guard + text for text in _PROBE], add_special_tokens=False)
        skip = len(self._guard_ids)
        pieces = [token for encoding in encodings for token in encoding.ids[skip:]]
        apart = all(encoding.ids[:skip] == self._guard_ids for encoding in encodings)
        return apart and self.decode(pieces) == "".join(_PROBE)

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        skip, shift = len(self._guard_ids), len(self._guard)
        guarded = self._backend.encode_batch([self._guard + text for text in texts], add_special_tokens=False)
        encodings = []
        for text, raw in zip(texts, guarded, strict=True):
            if raw.ids[:skip] != self._guard_ids:
                raise PlanError(f"tokenizer {self.name!r} cannot spell {text[:40]!r} as a piece of a prompt")
            ids = np.array(raw.ids[skip:], np.int32)
            if ids.size and int(ids.max()) >= self.vocab_size:
                raise PlanError(
                    f"tokenizer {self.name!r} has token {int(ids.max())} in {text[:40]!r}, "
                    f"but the model has only {self.vocab_size} embeddings"
                )
            spans = np.array(raw.offsets[skip:], np.int32).reshape(-1, 2) - shift
            encodings.append(Encoding(ids, np.maximum(spans, 0)))
        return encodings

    def decode(self, ids: Iterable[int]) -> str:
        plain = [int(token) for token in ids]
        text: str = self._backend.decode(self._guard_ids + plain, skip_special_tokens=False)
        return text[len(self._guard_spelled) :]

    def encode_prompt(self, text: str) -> Encoding:
        self._backend.encode_special_tokens = False
        try:
            raw = self._backend.encode(text, add_special_tokens=False)
        finally:
            self._backend.encode_special_tokens = True
        return Encoding(np.array(raw.ids, np.int32), np.array(raw.offsets, np.int32).reshape(-1, 2))


_WORD = re.compile(r" ?[^\W\d_]+| ?\d+| ?[^\w\s]+|_+|\s+")
_CHUNK = 4
_CODEPOINT = 1 << 28


class StandInTokenizer:
    """A tokenizer that needs no model: words, numbers and punctuation in chunks of up to four characters.

    An id spells its own chunk (7 bits a character, characters outside ASCII alone), so there is no table, ids are the
    same everywhere, and a thousand tokens of English are about as long as a real tokenizer's.
    """

    name = "stand-in (about four characters a token; no model)"
    vocab_size = 1 << 29
    special_ids: frozenset[int] = frozenset()

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        return [self._encode(text) for text in texts]

    def encode_prompt(self, text: str) -> Encoding:
        return self._encode(text)

    def _encode(self, text: str) -> Encoding:
        ids: list[int] = []
        spans: list[tuple[int, int]] = []
        for match in _WORD.finditer(text):
            start = match.start()
            while start < match.end():
                token, length = self._token(text[start : min(start + _CHUNK, match.end())])
                ids.append(token)
                spans.append((start, start + length))
                start += length
        return Encoding(np.array(ids, np.int32), np.array(spans, np.int32).reshape(-1, 2))

    @staticmethod
    def _token(chunk: str) -> tuple[int, int]:
        plain = 0
        while plain < len(chunk) and 0 < ord(chunk[plain]) < 128:
            plain += 1
        if plain == 0:
            return _CODEPOINT | ord(chunk[0]), 1
        token = 0
        for character in chunk[:plain]:
            token = token << 7 | ord(character)
        return token, plain

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self._chunk(int(token)) for token in ids)

    @staticmethod
    def _chunk(token: int) -> str:
        if token & _CODEPOINT:
            return chr(token & ~_CODEPOINT)
        characters = []
        while token:
            characters.append(chr(token & 127))
            token >>= 7
        return "".join(reversed(characters))
