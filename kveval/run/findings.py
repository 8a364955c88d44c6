"""What a reviewer must know about an engine."""

from __future__ import annotations

from typing import Literal

from kveval.run.storage import Stored

Level = Literal["info", "warning", "error"]


class Finding(Stored):
    """Something true about the engine that a reviewer must know.

    A finding of level error stops its variant, unless the configuration accepts its code by name.

    Example:
        Finding.warning("no_prefix_caching", "prefix caching is off")
    """

    level: Level
    code: str
    message: str

    @classmethod
    def info(cls, code: str, message: str) -> Finding:
        return cls(level="info", code=code, message=message)

    @classmethod
    def warning(cls, code: str, message: str) -> Finding:
        return cls(level="warning", code=code, message=message)

    @classmethod
    def error(cls, code: str, message: str) -> Finding:
        return cls(level="error", code=code, message=message)
