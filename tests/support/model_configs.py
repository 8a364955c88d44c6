"""Configurations of published models, and a small one to change."""

from __future__ import annotations

import json
from typing import Any

from kveval.memory.architecture import Architecture, read_architecture
from kveval.memory.estimate import FormatSize, estimate
from support import DATA

DENSE = {
    "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2,
}  # fmt: skip


def published_config(name: str) -> dict[str, Any]:
    """The config.json of a published model in tests/data/configs."""
    return json.loads((DATA / "configs" / f"{name}.json").read_text())


def published(name: str, ranks: int = 1) -> Architecture:
    return read_architecture(published_config(name), name, ranks)


def published_size(name: str, cache_format: str, length: int = 4096) -> FormatSize:
    sizes = estimate(published_config(name), name, window=None, formats=[cache_format], lengths=[length])
    return sizes.formats[0]


def layer_counts(**changes: Any) -> dict[str, int]:
    """The layers of `DENSE` with some keys changed, or left out."""
    config = {key: value for key, value in {**DENSE, **changes}.items() if value != "left out"}
    return read_architecture(config, "config.json").counts()
