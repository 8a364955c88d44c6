"""Reads what a checkpoint's weight files say of themselves, without loading a weight.

A safetensors file begins with eight bytes, the size of its header as a little-endian integer. The header is a JSON
object with dtype, shape and place of every tensor; the numbers follow it (https://github.com/huggingface/safetensors,
which limits a header to 100 MB).
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kveval.errors import ConfigError
from kveval.models.folder import (
    MOST_POINTER_BYTES,
    UnusableFileError,
    pointer_size,
    printable,
    read_json_object,
    reading,
)

_MOST_HEADER_BYTES = 100_000_000
_SIZE_BYTES = 8
# `maybe_remap_kv_scale_name` in vllm/model_executor/model_loader/weight_utils.py, and `get_cache_scale_mapper` in
# vllm/model_executor/layers/quantization/quark/quark.py.
_SCALES = (
    ".k_scale", ".v_scale", ".kv_scale", ".k_cache.scale", ".v_cache.scale", ".k_proj.output_scale",
    ".v_proj.output_scale",
)  # fmt: skip
_FORMATS = (("model.safetensors.index.json", "*.safetensors"), ("pytorch_model.bin.index.json", "*.bin"))
_SHARD = re.compile(r"(.+)-(\d{5,6})-of-(\d{5,6})(\.\w+)")


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a weight file."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight files that an engine loads.

    Attributes:
        total_bytes: of all files; of files that are Git LFS pointers, the size that the pointers tell.
        pointers: how many files are Git LFS pointers.
        tensors: by name, from the headers of safetensors files; empty where the weights have another format.
    """

    total_bytes: int
    pointers: int = 0
    tensors: Mapping[str, Tensor] = field(default_factory=dict)


def read_weights(folder: Path, key: str = "model") -> Weights | None:
    """Return the weights of a checkpoint folder; None where it has no weight files.

    Counts one copy where a checkpoint ships its weights twice: in two formats, or once more as ``consolidated*``.

    Raises:
        ConfigError: a file is missing, cut off, or not what its name says.
    """
    files = weight_files(folder, key)
    if not files:
        return None
    total, pointers = 0, 0
    tensors: dict[str, Tensor] = {}
    for file in files:
        with reading(file, key):
            told = _told_bytes(file)
            pointers += told is not None
            total += file.stat().st_size if told is None else told
            if told is None and file.suffix == ".safetensors":
                tensors |= read_header(file)
    return Weights(total, pointers, tensors)


def size_of_weights(folder: Path) -> int:
    """Return the bytes of a checkpoint's weight files, as far as they are there and can be read."""
    total = 0
    try:
        files = weight_files(folder)
    except ConfigError:
        files = [file for pattern in ("*.safetensors", "*.bin") for file in folder.glob(pattern)]
    for file in files:
        with contextlib.suppress(OSError):
            total += _told_bytes(file) or file.stat().st_size
    return total


def lfs_pointers(folder: Path) -> list[str]:
    """Return the names of the weight files that are Git LFS pointers, which no engine can load."""
    names = []
    for file in sorted(file for pattern in ("*.safetensors", "*.bin") for file in folder.glob(pattern)):
        with contextlib.suppress(OSError):
            if _told_bytes(file) is not None:
                names.append(file.name)
    return names


def weight_files(folder: Path, key: str = "model") -> list[Path]:
    """Return the files that hold one copy of a checkpoint's weights. Raises ConfigError: one of them is missing.

    As in vLLM, any safetensors file goes before pytorch_model.bin (vllm/model_executor/model_loader/default_loader.py).
    """
    for index, pattern in _FORMATS:
        if (folder / index).is_file():
            return _indexed(folder, folder / index, key)
        files = sorted(file for file in folder.glob(pattern) if file.is_file())
        files = [file for file in files if not file.name.startswith("consolidated")] or files
        if files:
            _check_shards(files, key)
            return files
    return []


def read_header(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file.

    Raises:
        UnusableFileError: the file is not safetensors, or holds less than its header says.
        OSError: it cannot be opened.
    """
    with file.open("rb") as opened:
        beginning = opened.read(_SIZE_BYTES)
        header_bytes = struct.unpack("<Q", beginning)[0] if len(beginning) == _SIZE_BYTES else 0
        if not 2 <= header_bytes <= _MOST_HEADER_BYTES:
            raise UnusableFileError("is not a safetensors file: it does not begin with the size of a header")
        text = opened.read(header_bytes)
    if len(text) < header_bytes:
        raise UnusableFileError("is cut off inside its header; use a complete copy")
    try:
        header = json.loads(text)
    except ValueError as error:
        raise UnusableFileError("is not a safetensors file: its header is not JSON") from error
    if not isinstance(header, dict):
        raise UnusableFileError("is not a safetensors file: its header is not a JSON object")
    tensors, end = {}, 0
    for name, entry in header.items():
        if name != "__metadata__":
            tensors[name], last = _tensor(name, entry)
            end = max(end, last)
    size, expected = file.stat().st_size, _SIZE_BYTES + header_bytes + end
    if size < expected:
        raise UnusableFileError(f"is cut off: it has {size:,} of {expected:,} bytes; use a complete copy")
    return tensors


def count_scales(folder: Path) -> int | None:
    """Count the K and V scale tensors in a checkpoint's safetensors files. None if one cannot be read."""
    count = 0
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with reading(file):
                count += sum(name.endswith(_SCALES) for name in read_header(file))
        except ConfigError:
            return None
    return count


def _tensor(name: str, entry: Any) -> tuple[Tensor, int]:
    """Return a tensor, and where its numbers end."""
    fields = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = fields.get("dtype"), _sizes(fields.get("shape")), _sizes(fields.get("data_offsets"))
    if not isinstance(dtype, str) or shape is None or offsets is None or len(offsets) != 2:
        raise UnusableFileError(f"is not a safetensors file: its header does not describe {printable(name)[:80]}")
    return Tensor(dtype, shape), offsets[1]


def _sizes(value: Any) -> tuple[int, ...] | None:
    """Return a list of integers from 0 as a tuple; None for anything else."""
    if isinstance(value, list) and all(type(one) is int and one >= 0 for one in value):
        return tuple(value)
    return None


def _indexed(folder: Path, index: Path, key: str) -> list[Path]:
    names = read_json_object(index, key).get("weight_map")
    if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
        raise ConfigError(f"{key}: {printable(index)} has no weight_map from tensors to files")
    files = [folder / name for name in sorted(set(names.values()))]
    with reading(index, key):
        missing = next((file for file in files if not file.is_file()), None)
    if missing:
        raise ConfigError(
            f"{key}: {printable(missing)} is missing, which {index.name} names; use a complete copy of the checkpoint"
        )
    return files


def _check_shards(files: list[Path], key: str) -> None:
    """Check that no shard is missing, where the names tell how many there are."""
    for file in files:
        shard = _SHARD.fullmatch(file.name)
        if shard is None:
            continue
        stem, _, count, suffix = shard.groups()
        end = f"-of-{count}{suffix}"
        there = sum(other.name.startswith(f"{stem}-") and other.name.endswith(end) for other in files)
        if there < int(count):
            raise ConfigError(
                f"{key}: {printable(file.parent)} has {there} of {int(count)} {printable(stem)} weight files; "
                "use a complete copy of the checkpoint"
            )


def _told_bytes(file: Path) -> int | None:
    """Return the size that a Git LFS pointer tells; None where `file` is no such pointer."""
    with file.open("rb") as opened:
        return pointer_size(opened.read(MOST_POINTER_BYTES + 1))
