"""The checkpoint under test: its window, its size, and hashes that tell it from every other."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kveval.demo_models import DEMO_MODELS, demo_model
from kveval.errors import ConfigError, nearest

# Hashing all of a 140 GB checkpoint would take minutes before the first question.
_WHOLE_FILE_BYTES = 1 << 30
_SAMPLED_BLOCKS = 64
_BLOCK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Model:
    """A Hugging Face checkpoint folder.

    Attributes:
        window: prompt plus output tokens the model was made for; None when its config does not say.
        parameters: from the weights' size, at the checkpoint's bytes per value.
    """

    path: Path
    config: dict[str, Any]
    window: int | None
    weight_bytes: int

    @property
    def text_config(self) -> dict[str, Any]:
        """The part of `config` that describes the decoder."""
        return _text_config(self.config)

    @property
    def parameters(self) -> int:
        return self.weight_bytes // 2


def read_model(path: Path, key: str = "model") -> Model:
    """Raises ConfigError: `path` is no checkpoint folder."""
    path = path.expanduser()
    if str(path) in DEMO_MODELS and not path.exists():
        path = demo_model(str(path))
    config_path = path / "config.json"
    if not config_path.is_file():
        what = "has no config.json" if path.is_dir() else "is no folder"
        raise ConfigError(
            f"{key}: {path} {what}; {nearest(str(path), DEMO_MODELS)}, or a folder with a Hugging Face checkpoint"
        )
    try:
        config = json.loads(config_path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{key}: {config_path} is not readable as JSON: {error}") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{key}: {config_path} is not a JSON object")
    weights = sum(file.stat().st_size for pattern in ("*.safetensors", "*.bin") for file in path.glob(pattern))
    return Model(path.resolve(), config, _window(config), weights)


def _text_config(config: dict[str, Any]) -> dict[str, Any]:
    text = config.get("text_config")
    return text if isinstance(text, dict) else config


def _window(config: dict[str, Any]) -> int | None:
    """As vLLM derives it: the position limit, stretched by rope scaling of the kinds that stretch it."""
    text = _text_config(config)
    limit = text.get("max_position_embeddings")
    if not isinstance(limit, int):
        return None
    rope = text.get("rope_parameters") or text.get("rope_scaling")
    if not isinstance(rope, dict):
        return limit
    kind = rope.get("rope_type") or rope.get("type")
    factor = rope.get("factor")
    if not isinstance(factor, int | float) or kind in (None, "default", "llama3", "longrope", "su"):
        return limit
    if kind == "yarn":
        limit = rope.get("original_max_position_embeddings") or limit
    return int(limit * factor)


def hash_model(model: Model) -> dict[str, str]:
    """sha256 of every file that decides answers; weights above 1 GiB are sampled, and say so."""
    names = ("*.json", "*.jinja", "*.safetensors", "*.bin", "*.model", "*.txt")
    files = sorted({file for pattern in names for file in model.path.glob(pattern) if file.is_file()})
    return {file.name: _hash_file(file) for file in files}


def _hash_file(path: Path) -> str:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= _WHOLE_FILE_BYTES:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256(str(size).encode())
        for block in range(_SAMPLED_BLOCKS):
            file.seek(block * (size - _BLOCK_BYTES) // (_SAMPLED_BLOCKS - 1))
            digest.update(file.read(_BLOCK_BYTES))
    return f"sampled:{digest.hexdigest()}"
