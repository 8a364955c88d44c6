"""Looks up the text of token ids, if the tokenizer of the run is still there."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

from kveval.run.manifest import Manifest


class TokenTexts:
    """Looks up token texts. Every text is None if the model's folder is gone or holds another tokenizer."""

    def __init__(self, manifest: Manifest) -> None:
        model = manifest.variants[manifest.baseline].spec.get("model")
        self._path = Path(model) / "tokenizer.json" if isinstance(model, str) else None
        self._sha256 = manifest.inputs.get("model/tokenizer.json")

    def text(self, token_id: int) -> str | None:
        """Returns the text of one token. None if it is unknown, or part of a character."""
        if self._tokenizer is None:
            return None
        try:
            text = str(self._tokenizer.decode([token_id], skip_special_tokens=False))
        except (OverflowError, TypeError):
            return None
        return None if not text or "\ufffd" in text else text

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        try:
            if self._path is None or hashlib.sha256(self._path.read_bytes()).hexdigest() != self._sha256:
                return None
            return Tokenizer.from_file(str(self._path))
        except OSError:
            return None
