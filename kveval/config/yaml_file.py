"""Reads a YAML file a person wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kveval.errors import ConfigError


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key that is there twice. YAML itself would silently let the last one win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key!r} is given twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path, source: str) -> Any:
    """Reads a YAML file.

    Args:
        source: what messages call it.

    Raises:
        ConfigError: it cannot be read, or it is not YAML; names the line.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)  # noqa: S506 - a safe loader
    except OSError as error:
        raise ConfigError(f"{source}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" (line {where.line + 1})" if where else ""
        raise ConfigError(f"{source}{line}: not YAML: {getattr(error, 'problem', None) or error}") from error
