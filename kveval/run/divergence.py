"""The run directory's ``divergence/``: what every variant said along the same texts.

::

    divergence/
      texts.json              the texts, the same for all variants
      VARIANT/TEXT_ID.npz     one reading
      VARIANT/TEXT_ID.failed  why there is none

A text id is a hash of all that decides a reading, so a reading of something else has another name. Files that are read
back are untrusted: names, types, shapes and sizes are checked before an array is made, and nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
import zlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from kveval.errors import RunDirectoryError
from kveval.run.storage import Stored, first_problem, storage, to_json, write_atomically

# A text of a million tokens with 256 alternatives each.
_MOST_BYTES = 1 << 30
# What float32 makes of the logarithm of 1, and of probabilities that add up to 1.
_ROUNDING_NATS = 1e-3
_SUM_ROUNDING = 1e-2
_MOST_TOKENS = 1 << 31
_MOST_REASON_BYTES = 1000
_FAILED = ".failed"

TextKind = Literal["output", "text"]
Tokens = Annotated[int, Field(gt=0, lt=_MOST_TOKENS)]


class DivergenceText(Stored):
    """Describes one text that every variant is forced to write.

    Attributes:
        kind: ``output`` is what the baseline writes after the prompt of a sample; ``text`` is a text of the user.
        source: the sample's id, or the file.
        cluster: texts of one cluster share a context, so they are not independent.
        tokens: how many are forced.
    """

    text_id: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    kind: TextKind
    source: str
    cluster: str
    context_length: Tokens
    prompt_tokens: Tokens
    tokens: Tokens


class DivergenceTexts(Stored):
    """Lists all texts of a run, measured or not. No text is there twice: it would count twice."""

    texts: tuple[DivergenceText, ...]

    @model_validator(mode="after")
    def _once(self) -> Self:
        if len({text.text_id for text in self.texts}) < len(self.texts):
            raise ValueError("a text_id is there twice")
        return self


@dataclass(frozen=True, slots=True)
class Reading:
    """What one variant said along a text of n tokens, at temperature 1.

    Attributes:
        token_ids: int32 [n], the text.
        kept_ids: int32 [n, k], the baseline's most likely tokens. In a candidate's file it has no rows: its
            `kept_logprobs` are of the baseline's ids, and `ids_sha256` says of which.
        kept_logprobs: float32 [n, k].
        logprobs, tail_logprobs: float32 [n], of the text's tokens, and of all tokens that are not kept.
        argmax_ids: int32 [n].
        ids_sha256: uint8 [32], over the text and the baseline's kept ids.
        seconds: float64 [1], how long the forcing took.
    """

    token_ids: NDArray[np.int32]
    kept_ids: NDArray[np.int32]
    kept_logprobs: NDArray[np.float32]
    logprobs: NDArray[np.float32]
    tail_logprobs: NDArray[np.float32]
    argmax_ids: NDArray[np.int32]
    ids_sha256: NDArray[np.uint8]
    seconds: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Raises ValueError if the arrays do not belong together."""
        tokens, rows = len(self.token_ids), self.kept_logprobs.shape
        shapes = {
            "token_ids": (tokens,),
            "kept_logprobs": (tokens, rows[-1] if rows else 0),
            "logprobs": (tokens,),
            "tail_logprobs": (tokens,),
            "argmax_ids": (tokens,),
            "ids_sha256": (32,),
            "seconds": (1,),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} has the shape {getattr(self, name).shape} instead of {shape}")
        if not tokens or not rows[-1]:
            raise ValueError("holds no tokens")
        if self.kept_ids.shape not in ((0, rows[-1]), rows):
            raise ValueError(f"kept_ids has the shape {self.kept_ids.shape} instead of {rows}")
        if any((values > _ROUNDING_NATS).any() for values in (self.kept_logprobs, self.logprobs, self.tail_logprobs)):
            raise ValueError("a probability is above 1")
        if self._has_other_sum_than_1():
            raise ValueError("the probabilities of a token do not add up to 1")
        if not 0 <= self.seconds[0] < np.inf:
            raise ValueError(f"seconds is {self.seconds[0]}")
        if len(self.kept_ids) and not np.array_equal(self.ids_sha256, ids_digest(self.token_ids, self.kept_ids)):
            raise ValueError("ids_sha256 is not that of its ids")

    def _has_other_sum_than_1(self) -> bool:
        """Whether kept tokens and tail are not the whole of some step. A step without numbers has no sum."""
        sums = np.exp(np.column_stack([self.kept_logprobs, self.tail_logprobs]).astype(np.float64)).sum(axis=1)
        return bool((np.abs(sums - 1) > _SUM_ROUNDING).any())


_TYPES = {
    "token_ids": "<i4", "kept_ids": "<i4", "kept_logprobs": "<f4", "logprobs": "<f4", "tail_logprobs": "<f4",
    "argmax_ids": "<i4", "ids_sha256": "|u1", "seconds": "<f8",
}  # fmt: skip


def ids_digest(token_ids: NDArray[np.int32], kept_ids: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Hashes a text and the ids that are read along it, uint8 [32]."""
    digest = hashlib.sha256(token_ids.astype("<i4").tobytes())
    digest.update(kept_ids.astype("<i4").tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


class DivergenceFolder:
    """The readings of a run on disk.

    Args:
        run: the run directory.
    """

    def __init__(self, run: Path) -> None:
        self._path = run / "divergence"

    def write_texts(self, texts: DivergenceTexts) -> None:
        with storage(self._path):
            self._path.mkdir(exist_ok=True)
        write_atomically(self._path / "texts.json", to_json(texts, indent=1) + "\n")

    def texts(self) -> tuple[DivergenceText, ...]:
        """Returns all texts of the run. Raises RunDirectoryError if their list is broken."""
        path = self._path / "texts.json"
        try:
            return DivergenceTexts.model_validate_json(path.read_bytes()).texts
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise RunDirectoryError(f"{path}: cannot be read: {error.strerror}") from error
        except ValidationError as error:
            raise RunDirectoryError(
                f"{path}: {first_problem(error)}; `kveval sweep --resume` writes this file again"
            ) from error

    def write(self, variant: str, text_id: str, reading: Reading) -> None:
        """Writes one reading whole or not at all."""
        path = self._file(variant, text_id)
        arrays = {name: getattr(reading, name).astype(dtype, copy=False) for name, dtype in _TYPES.items()}
        unfinished = path.with_suffix(".tmp")
        with storage(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **arrays)
            unfinished.replace(path)
            path.with_suffix(_FAILED).unlink(missing_ok=True)

    def write_failure(self, variant: str, text_id: str, reason: str) -> None:
        """Notes why a text has no reading."""
        path = self._file(variant, text_id).with_suffix(_FAILED)
        with storage(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, reason[:_MOST_REASON_BYTES] + "\n")

    def failure(self, variant: str, text_id: str) -> str | None:
        """Returns why a text has no reading, on one line. None if nothing was noted."""
        try:
            with self._file(variant, text_id).with_suffix(_FAILED).open("rb") as file:
                text = file.read(_MOST_REASON_BYTES)
        except OSError:
            return None
        return " ".join(text.decode(errors="replace").split()) or None

    def read(self, variant: str, text_id: str) -> Reading | None:
        """Returns one reading, or None if there is none. Raises RunDirectoryError if its file is broken."""
        path = self._file(variant, text_id)
        try:
            with zipfile.ZipFile(path) as archive:
                return Reading(**{field.name: _array(archive, field.name) for field in fields(Reading)})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise RunDirectoryError(f"{path}: {error}; `kveval sweep --resume` reads this text again") from error

    def written(self, variant: str) -> dict[Path, tuple[int, int]]:
        """Returns the files of a variant's readings, each with what changes when it is written again."""
        stats = ((path, path.stat()) for path in sorted((self._path / variant).glob("*.npz")))
        return {path: (stat.st_mtime_ns, stat.st_ino) for path, stat in stats}

    def size_bytes(self, variant: str, text_id: str) -> int | None:
        """Returns the size of one reading on disk. None if there is none."""
        try:
            return self._file(variant, text_id).stat().st_size
        except OSError:
            return None

    def _file(self, variant: str, text_id: str) -> Path:
        return self._path / variant / f"{text_id}.npz"


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Reads one array. Its header must promise exactly the bytes that are there, before memory is taken for them."""
    info = archive.getinfo(f"{name}.npy")
    if info.file_size > _MOST_BYTES:
        raise ValueError(f"{name} is larger than {_MOST_BYTES} bytes")
    with archive.open(info) as member:
        stream = io.BytesIO(member.read(info.file_size))
    header: Any = np.lib.format
    if header.read_magic(stream) != (1, 0):
        raise ValueError(f"{name} is not a numpy array of version 1.0")
    shape, is_fortran, dtype = header.read_array_header_1_0(stream)
    data = stream.read()
    if is_fortran or dtype != np.dtype(_TYPES[name]) or math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"{name} is {dtype} of shape {shape} in {len(data)} bytes; use {_TYPES[name]}")
    array: np.ndarray = np.frombuffer(data, dtype).reshape(shape)
    return array
