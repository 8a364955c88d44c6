"""Reads YAML that somebody else wrote: plain values only, within bounds, and every mistake with its line."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from kveval.errors import ConfigError

# Configurations and task files are a few kilobytes. The bounds keep reading any file below two seconds.
MOST_BYTES = 256 * 1024
MOST_VALUES = 8_000
MOST_LEVELS = 64
MOST_DIGITS = 30

_YAML = "tag:yaml.org,2002:"


def read_yaml(path: Path, source: str, *, text_tags: Collection[str] = ()) -> Any:
    """Returns what a YAML file holds: texts, numbers, booleans and nulls, in lists and in mappings.

    Args:
        source: what messages call the file.
        text_tags: tags, such as ``!function``, whose text is taken as it is.

    Raises:
        ConfigError: the file cannot be read, or holds anything else. Names the line.
    """
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{source}: not a file")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ConfigError(f"{source}: larger than {MOST_BYTES // 1024} KiB")
        loader = _Loader(content.decode("utf-8"), text_tags)
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{source}: not YAML: {_one_line(error)}") from error
    try:
        return loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" (line {mark.line + 1})" if mark else ""
        raise ConfigError(f"{source}{line}: not YAML: {_short(error.problem or _one_line(error))}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{source}: not YAML: {_one_line(error)}") from error
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with bounds, and without YAML's surprises: dates, sets, a key that is there twice."""

    def __init__(self, text: str, text_tags: Collection[str]) -> None:
        super().__init__(text)
        self._text_tags = text_tags
        self._values = 0
        self._levels = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Counts values and levels. An alias counts as all it stands for: a few of them can stand for billions."""
        event, before = self._next_event(), self._values
        self._levels += 1
        node = super().compose_node(parent, index)
        self._levels -= 1
        if isinstance(event, yaml.AliasEvent):
            if id(node) not in self._sizes:
                raise _problem(f"alias {event.anchor!r} stands for something that holds it", event.start_mark)
            self._values += self._sizes[id(node)]
        self._values += 1
        if self._values > MOST_VALUES:
            raise _problem(f"more than {MOST_VALUES:,} values", event.start_mark)
        self._sizes[id(node)] = self._values - before
        return node

    def compose_sequence_node(self, anchor: Any) -> yaml.SequenceNode:
        self._check_levels()
        return super().compose_sequence_node(anchor)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        self._check_levels()
        return super().compose_mapping_node(anchor)

    def _next_event(self) -> yaml.Event:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        return event

    def _check_levels(self) -> None:
        if self._levels > MOST_LEVELS:
            raise _problem(f"nested deeper than {MOST_LEVELS} levels", self._next_event().start_mark)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Names the line of whatever PyYAML's constructors raise."""
        if node.tag in self._text_tags and isinstance(node, yaml.ScalarNode):
            return node.value
        kind = node.tag.removeprefix(_YAML)
        if kind == "timestamp":
            raise _problem(f"{_short(node.value)!r} is a date in YAML; use quotes around it", node.start_mark)
        if kind not in ("str", "int", "float", "bool", "null", "seq", "map"):
            raise _problem(
                f"tag {_short(node.tag)!r}; use: text, numbers, booleans, lists and mappings", node.start_mark
            )
        try:
            value = super().construct_object(node, deep)
        except yaml.MarkedYAMLError:
            raise
        except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
            said = f"{_short(str(node.value), 60)!r} is not of the type {kind!r}"
            raise _problem(said, node.start_mark) from error
        reason = _unusable(value)
        if reason:
            raise _problem(reason, node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key in seen:
                raise _problem(f"key {_short(key)!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _unusable(value: Any) -> str | None:
    """Returns why a value can be kept by no run directory, or used by no path or number. None if it can."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        return f"a number of more than {MOST_DIGITS} digits"
    if isinstance(value, str):
        if "\x00" in value:
            return "text with a null character"
        if any("\ud800" <= character <= "\udfff" for character in value):
            return "text with half of a surrogate pair"
    return None


def _problem(said: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=said, problem_mark=mark)


def _one_line(error: BaseException) -> str:
    return _short(" ".join(str(error).split()) or type(error).__name__)


def _short(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
