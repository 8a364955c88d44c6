"""What kveval and its processor inside vLLM agree on: how a request is forced, and where its result is.

A forced request carries its target ids in ``vllm_xargs``. The processor writes the probabilities into a file in the
folder that the environment names. The file is there before the answer is. Logits have as many values as the vocabulary:
reduced inside the engine, a result is a few bytes a token.
"""

from __future__ import annotations

import contextlib
import re
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

FOLDER_VARIABLE = "KVEVAL_FORCED"
PROCESSOR = "kveval.engines.plugin.forced_decode:ForcedDecode"

_TARGETS, _TEMPERATURE, _RESULT = "kveval_targets", "kveval_temperature", "kveval_result"
_TOP_K, _READ_IDS = "kveval_top_k", "kveval_read_ids"
_NAME = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class ForcedOutput:
    """The output that a request must have, and what to read along it.

    Attributes:
        token_ids: what the engine emits in place of its own choice.
        temperature: probabilities are those of ``softmax(logits / temperature)``, > 0.
        top_k: how many of the engine's most likely tokens to keep at every step.
        read_ids: the name of a result whose `top_ids` to read at every step. None reads none.
        name: of the result file.
    """

    token_ids: Sequence[int]
    temperature: float = 1.0
    top_k: int = 0
    read_ids: str | None = None
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        """Raises ValueError if a value is not what the attributes say."""
        if not self.token_ids or not all(isinstance(token, int) and token >= 0 for token in self.token_ids):
            raise ValueError(f"{_TARGETS} is not a list of token ids")
        if not 0 < self.temperature < 1e6:
            raise ValueError(f"{_TEMPERATURE} is {self.temperature!r}; use a number above 0")
        if not isinstance(self.top_k, int) or self.top_k < 0:
            raise ValueError(f"{_TOP_K} is {self.top_k!r}; use a whole number from 0")
        names = {_RESULT: self.name} if self.read_ids is None else {_RESULT: self.name, _READ_IDS: self.read_ids}
        for key, name in names.items():
            # The name becomes a path.
            if not (isinstance(name, str) and _NAME.fullmatch(name)):
                raise ValueError(f"{key} is {name!r}; use 32 hexadecimal digits")

    def xargs(self) -> dict[str, Any]:
        """Returns ``vllm_xargs`` of the request."""
        values = {
            _TARGETS: list(self.token_ids),
            _TEMPERATURE: self.temperature,
            _RESULT: self.name,
            _TOP_K: self.top_k,
        }
        return values if self.read_ids is None else values | {_READ_IDS: self.read_ids}

    @classmethod
    def from_xargs(cls, xargs: Mapping[str, Any] | None) -> Self | None:
        """Returns what a request wants forced. None if nothing. Raises ValueError if it cannot be."""
        if not xargs or _TARGETS not in xargs:
            return None
        targets, temperature = xargs[_TARGETS], xargs.get(_TEMPERATURE, 1.0)
        if not isinstance(targets, list):
            raise ValueError(f"{_TARGETS} is not a list of token ids")
        if not isinstance(temperature, int | float):
            raise ValueError(f"{_TEMPERATURE} is {temperature!r}; use a number above 0")
        return cls(targets, temperature, xargs.get(_TOP_K, 0), xargs.get(_READ_IDS), xargs.get(_RESULT, ""))


@dataclass(frozen=True, slots=True)
class ForcedResult:
    """What the engine said along a forced output of n tokens.

    Attributes:
        logprobs: float32 [n], natural logarithm of each target's probability. NaN where the engine's logits are not
            numbers, or have no such token.
        top_ids: int32 [n, k], the engine's most likely tokens, most likely first; `top_logprobs`, float32 [n, k].
        read_logprobs: float32 [n, k], of the ids that were to be read.
        tail_logprobs: float32 [n], of all tokens together that are in neither `top_ids` nor the ids read. -inf: none.
        argmax_ids: int32 [n], the most likely token.
    """

    logprobs: np.ndarray
    argmax_ids: np.ndarray
    top_ids: np.ndarray | None = None
    top_logprobs: np.ndarray | None = None
    read_logprobs: np.ndarray | None = None
    tail_logprobs: np.ndarray | None = None

    def write(self, folder: Path, name: str) -> None:
        arrays = {key: getattr(self, key) for key in self.__slots__ if getattr(self, key) is not None}
        unfinished = folder / f".{name}.npz"
        with unfinished.open("wb") as file:
            np.savez(file, **arrays)
        unfinished.replace(folder / f"{name}.npz")

    @classmethod
    def read(cls, folder: Path, name: str) -> Self:
        """Raises OSError if there is no such file, ValueError if it is broken."""
        try:
            with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
                return cls(**{key: arrays[key] for key in arrays.files if key in cls.__slots__})
        except (zipfile.BadZipFile, EOFError, TypeError) as error:
            raise ValueError(f"{name}.npz is cut or lacks an array: {error}") from error

    @staticmethod
    def remove(folder: Path, name: str) -> None:
        with contextlib.suppress(OSError):
            (folder / f"{name}.npz").unlink()
