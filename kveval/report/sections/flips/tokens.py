"""The text of token ids, where the tokenizer the run was made with is still at hand."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

from kveval.run.manifest import Manifest


class TokenTexts:
    """Looks up token texts; None for all of them when the model's folder is gone or holds another tokenizer."""

    def __init__(self, manifest: Manifest) -> None:
        model = manifest.variants[manifest.baseline].spec.get("model")
        self._path = Path(model) / "tokenizer.json" if isinstance(model, str) else None
        self._sha256 = manifest.inputs.get("model/tokenizer.json")

    def text(self, token_id: int) -> str | None:
        if self._tokenizer is None:
            return None
        try:
            text = str(self._tokenizer.decode([token_id], skip_special_tokens=False))
        except (OverflowError, TypeError):
            return None
        # Part of a character has no text of its own.
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
