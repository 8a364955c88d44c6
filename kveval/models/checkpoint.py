"""Reads the folder of a checkpoint: its window, its size, and the hashes of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kveval.errors import ConfigError, nearest
from kveval.models.config_file import language_part, read_config
from kveval.models.demo import DEMO_MODELS, demo_model
from kveval.models.folder import printable, reading, shown
from kveval.models.weights import size_of_weights

# Hashing all of a 140 GB checkpoint would take minutes before the first question.
_WHOLE_FILE_BYTES = 1 << 30
_SAMPLED_BLOCKS = 64
_BLOCK_BYTES = 1 << 18

_POSITION_LIMITS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
# What transformers' configuration classes fill in where a published config.json leaves the key out.
_DEFAULT_POSITIONS = {"gemma3_text": 131072, "falcon": 2048}
# Far beyond any model. Larger numbers are mistakes, and would overflow.
_MOST_POSITIONS = 1 << 40
_MOST_FACTOR = 1 << 20
# Kinds of rope scaling whose factor max_position_embeddings already has in it.
_ROPE_INCLUDED = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")


@dataclass(frozen=True, slots=True)
class Model:
    """A Hugging Face checkpoint folder.

    Attributes:
        window: prompt and output tokens together that the model was made for; None if its config does not say.
    """

    path: Path
    config: dict[str, Any]
    window: int | None
    weight_bytes: int

    @property
    def text_config(self) -> Mapping[str, Any]:
        """The part of `config` that describes the decoder."""
        return language_part(self.config)

    @property
    def parameters(self) -> int:
        """About how many parameters it has: the size of its weights at two bytes each."""
        return self.weight_bytes // 2


def read_model(path: Path, key: str = "model", config_name: str = "config.json") -> Model:
    """Reads the checkpoint in a folder, or a demo model by its name.

    Args:
        key: the key of the configuration that names the checkpoint, for messages.
        config_name: the file of the folder that describes the model.

    Raises:
        ConfigError: `path` is not a checkpoint folder.
        DataError: a demo model could not be fetched.
    """
    with reading(path, key):
        path = path.expanduser()
        if str(path) in DEMO_MODELS and not path.exists():
            path = demo_model(str(path))
        config_path = path / config_name
        if not config_path.exists():
            what = "has no config.json" if path.is_dir() else "is not a folder"
            raise ConfigError(
                f"{key}: {printable(path)} {what}; {nearest(str(path), DEMO_MODELS)}, or a folder with a Hugging Face "
                "checkpoint"
            )
        config = read_config(config_path, key)
        return Model(path.resolve(), config, _window(config, f"{key}: {printable(config_path)}"), size_of_weights(path))


def _window(config: Mapping[str, Any], source: str) -> int | None:
    """Returns the largest ``--max-model-len``, as vLLM 0.32 derives it; None where vLLM would assume 2048.

    It is the smallest of the position limits, or ``model_max_length``, which Command-R has. A factor of rope scaling
    multiplies it, unless the limit contains the factor already, as with YaRN. Source: `derive_max_model_len_and_key`
    (vllm/transformers_utils/model_arch_config_convertor.py) and `_get_and_verify_max_len` (vllm/config/model.py).
    """
    text = language_part(config)
    model_type = str(text.get("model_type") or config.get("model_type"))
    text = {"max_position_embeddings": _DEFAULT_POSITIONS.get(model_type), **text}
    limits = {key: _limit(text, key, source) for key in _POSITION_LIMITS if text.get(key) is not None}
    if not limits:
        return None
    limit = limits.get("model_max_length") or min(limits.values())
    return limit if "gemma3" in model_type else int(limit * _rope_factor(text))


def _limit(text: Mapping[str, Any], key: str, source: str) -> int:
    value = text[key]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MOST_POSITIONS:
        raise ConfigError(f"{source}: {key}: {shown(value)} cannot be used; use a number of tokens above 0")
    return value


def _rope_factor(text: Mapping[str, Any]) -> float:
    """Returns the factor of rope scaling. Where kinds of layers differ, the last one with a factor counts."""
    rope = text.get("rope_scaling") or text.get("rope_parameters")
    if not isinstance(rope, dict):
        return 1
    factor: Any = 1
    for scaling in [one for one in rope.values() if isinstance(one, dict)] or [rope]:
        if (scaling.get("rope_type") or scaling.get("type")) not in _ROPE_INCLUDED:
            factor = scaling.get("factor", factor)
    return factor if isinstance(factor, int | float) and 0 < factor <= _MOST_FACTOR else 1


def hash_model(model: Model) -> dict[str, str]:
    """Returns the sha256 of every file that decides answers. Of a file above 1 GiB it is that of some blocks."""
    names = ("*.json", "*.jinja", "*.safetensors", "*.bin", "*.model", "*.txt")
    hashes = {}
    with reading(model.path):
        files = sorted({file for pattern in names for file in model.path.glob(pattern) if file.is_file()})
    for file in files:
        with reading(file):
            hashes[file.name] = _hash_file(file)
    return hashes


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
