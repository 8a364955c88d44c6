"""Reads a model's config.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kveval.models.folder import read_json_object

# The parts that multimodal models nest their language model in, one inside the other in Qwen's Omni models.
_LANGUAGE_PARTS = ("thinker_config", "text_config", "llm_config", "language_config")
_DEEPEST_PART = 3
# Published ones have less than 1 MB.
_MOST_CONFIG_BYTES = 10_000_000


def read_config(path: Path, key: str = "model") -> dict[str, Any]:
    """Return the parsed config.json at `path`. Raises ConfigError: it cannot be read, or is not a JSON object."""
    return read_json_object(path, key, _MOST_CONFIG_BYTES)


def language_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a config that describes the language model: the whole config of a text model."""
    part = config
    for _ in range(_DEEPEST_PART):
        inner = next((part[key] for key in _LANGUAGE_PARTS if isinstance(part.get(key), dict) and part[key]), None)
        if inner is None:
            break
        part = inner
    return part
