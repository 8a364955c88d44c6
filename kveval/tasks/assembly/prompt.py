"""Puts a task's text into the form that a model expects: the tokens before and after it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kveval.errors import ConfigError
from kveval.models.config_file import language_part, read_config
from kveval.models.folder import printable, reading, shown
from kveval.models.tokenizer import load_tokenizer
from kveval.tasks.assembly.tokenizer import FastTokenizer, StandInTokenizer, Tokenizer

PromptStyle = Literal["chat", "completion"]

# Far beyond any model; a larger number in a config.json is a mistake.
_MOST_TOKENS = 100_000_000
_MARKER = "KVEVALQCONTENTQMARKER"
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
)


def fixed_date(layout: str) -> str:
    """Formats one fixed date for chat templates, because a prompt must not depend on the day it is made."""
    return datetime(2024, 7, 26).strftime(layout)


@dataclass(frozen=True, eq=False)
class PromptFormat:
    """A tokenizer and the tokens around a task's text.

    Attributes:
        name: the model directory, or what the stand-in says it is.
        style: ``chat`` puts the text into one user turn of the chat template; ``completion`` sends it as it is,
            followed by the task's answer prefix.
        prefix_ids: int32, sent first: the beginning-of-sequence token and the opening of the user turn.
        suffix_ids: int32, sent last: the end of the user turn and the opening of the answer. Empty for completion.
        tokenizer_sha256: over the tokenizer's files.
        chat_template_sha256: None for completion.
        bos_id: the tokenizer's beginning-of-sequence token, if it has one.
        answer_joint: white space that the chat template writes between the opening of an answer and its text, so that
            the model writes it too.
        chat_template: its source. Empty for completion.
    """

    name: str
    style: PromptStyle
    tokenizer: Tokenizer
    prefix_ids: np.ndarray
    suffix_ids: np.ndarray
    tokenizer_sha256: str
    chat_template_sha256: str | None
    bos_id: int | None = None
    answer_joint: str = ""
    chat_template: str = ""

    @classmethod
    def load(
        cls,
        model_dir: Path,
        style: Literal["auto", "chat", "completion"] = "auto",
        chat_template_kwargs: Mapping[str, Any] | None = None,
        trusts_code: bool = False,
    ) -> PromptFormat:
        """Reads the tokenizer of a model directory. Never uses the network.

        Args:
            style: ``auto`` is chat when the model has a chat template.
            chat_template_kwargs: variables of the template, e.g. ``{"enable_thinking": False}``.
            trusts_code: whether Python code that the folder holds may run, to make its tokenizer.

        Raises:
            ConfigError: no usable tokenizer there, or chat is asked of a model without a template.
            PlanError: the tokenizer cannot spell text exactly.
        """
        tokenizer = load_tokenizer(model_dir, trusts_code)
        with reading(model_dir):
            return cls._of(tokenizer, model_dir, style, chat_template_kwargs or {})

    @classmethod
    def _of(cls, tokenizer: Any, model_dir: Path, style: str, chat_template_kwargs: Mapping[str, Any]) -> PromptFormat:
        template = tokenizer.get_chat_template() if tokenizer.chat_template else None
        if style == "chat" and template is None:
            raise ConfigError(
                f"prompt style 'chat' needs a chat template and {model_dir} has none; use auto or completion"
            )
        backend = tokenizer.backend_tokenizer
        if style == "completion" or template is None:
            used: PromptStyle = "completion"
            before, after, joint = _completion_frame(tokenizer), np.zeros(0, np.int32), ""
        else:
            used = "chat"
            variables = {"strftime_now": fixed_date, **chat_template_kwargs}
            opening, closing = _split_template(tokenizer, variables, model_dir)
            joint = _answer_joint(tokenizer, variables, f"{opening}{_MARKER}{closing}")
            before, after = (
                np.array(backend.encode(text, add_special_tokens=False).ids, np.int32) for text in (opening, closing)
            )
        return cls(
            name=str(model_dir),
            style=used,
            tokenizer=FastTokenizer(backend, _vocab_size(model_dir, len(tokenizer)), str(model_dir)),
            prefix_ids=before,
            suffix_ids=after,
            tokenizer_sha256=_files_sha256(model_dir),
            chat_template_sha256=None if used == "completion" else hashlib.sha256(str(template).encode()).hexdigest(),
            bos_id=tokenizer.bos_token_id,
            answer_joint=joint,
            chat_template="" if used == "completion" else str(template),
        )

    @classmethod
    def stand_in(cls) -> PromptFormat:
        """Makes completion prompts without a model, to look at tasks and to test them."""
        tokenizer = StandInTokenizer()
        nothing = np.zeros(0, np.int32)
        digest = hashlib.sha256(tokenizer.name.encode()).hexdigest()
        return cls(tokenizer.name, "completion", tokenizer, nothing, nothing, digest, None)

    @property
    def first_token_ids(self) -> tuple[int, ...]:
        """Returns the ids that every prompt starts with, at most eight, to show a missing or doubled first token."""
        return tuple(int(token) for token in self.prefix_ids[:8])

    @property
    def begins_with_bos(self) -> bool:
        return self.bos_id is not None and self.first_token_ids[:1] == (self.bos_id,)

    def encode(self, text: str) -> np.ndarray:
        """Encodes a piece of a prompt, int32 [tokens]. Adds nothing. Special tokens spelled in the text stay text."""
        return self.tokenizer.encode([text])[0].ids

    @cached_property
    def ids_by_text(self) -> Mapping[str, int]:
        """Maps each text that only one token has to that token. Takes a second or two for a large vocabulary."""
        texts = [(self.decode([token]), token) for token in range(self.tokenizer.vocab_size)]
        times = Counter(text for text, _ in texts)
        return {text: token for text, token in texts if times[text] == 1}

    def spell(self, ids: Iterable[int]) -> tuple[str, int]:
        """Decodes token ids, and counts the tokens that encoding the text again gives."""
        text = self.decode(ids)
        return text, len(self.tokenizer.encode_prompt(text).ids)

    def decode(self, ids: Iterable[int]) -> str:
        """Decodes token ids to their exact text, special tokens included."""
        return self.tokenizer.decode(ids)


def _completion_frame(tokenizer: Any) -> np.ndarray:
    """Returns what the tokenizer puts before a text: usually its beginning-of-sequence token or nothing."""
    bare = tokenizer.encode("a", add_special_tokens=False)
    framed = tokenizer.encode("a", add_special_tokens=True)
    starts = [i for i in range(len(framed) - len(bare) + 1) if framed[i : i + len(bare)] == bare]
    return np.array(framed[: starts[0]] if starts else [], np.int32)


def _split_template(tokenizer: Any, variables: Mapping[str, Any], model_dir: Path) -> tuple[str, str]:
    try:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": _MARKER}], tokenize=False, add_generation_prompt=True, **variables
        )
    except Exception as error:  # a template is code of the model's author and may raise anything
        reason = printable(" ".join(str(error).split()))
        raise ConfigError(f"the chat template of {printable(model_dir)} fails: {reason}") from error
    if text.count(_MARKER) != 1:
        raise ConfigError(f"the chat template of {model_dir} repeats or drops the user's text; use completion")
    opening, closing = text.split(_MARKER)
    return opening, closing


def _answer_joint(tokenizer: Any, variables: Mapping[str, Any], asked: str) -> str:
    answer = f"{_MARKER}ANSWER"
    turns = [{"role": "user", "content": _MARKER}, {"role": "assistant", "content": answer}]
    try:
        text: str = tokenizer.apply_chat_template(turns, tokenize=False, **variables)
    except Exception:  # a template may refuse anything, and then says nothing about the joint
        return ""
    joint = text.split(answer)[0].removeprefix(asked)
    return joint if joint.isspace() else ""


def _vocab_size(model_dir: Path, tokens: int) -> int:
    """Counts the model's embeddings; a tokenizer may know more tokens than its model."""
    path = model_dir / "config.json"
    if not path.exists():
        return tokens
    size = language_part(read_config(path)).get("vocab_size")
    if size is None:
        return tokens
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= _MOST_TOKENS:
        raise ConfigError(f"model: {printable(path)}: vocab_size: {shown(size)} cannot be used; use a positive integer")
    return size


def _files_sha256(model_dir: Path) -> str:
    digest = hashlib.sha256()
    for name in _TOKENIZER_FILES:
        path = model_dir / name
        if path.is_file():
            digest.update(f"{name}:{path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
