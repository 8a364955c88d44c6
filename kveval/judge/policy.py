"""The policy of a run: what its configuration says, changed by what is given on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from kveval.config.messages import key_of, reason_of
from kveval.config.sweep import JudgeConfig
from kveval.errors import ConfigError, nearest
from kveval.judge.verdicts import Policy
from kveval.run.manifest import Manifest


def policy_of(manifest: Manifest, overrides: Mapping[str, Any] | None = None) -> Policy:
    """The ``judge`` section the run was configured with; `overrides` replace keys of it, `margins` single families.

    Raises:
        ConfigError: a key or value that is not allowed.
    """
    configured = manifest.config.get("judge") or {}
    if not isinstance(configured, Mapping):
        raise ConfigError(f"judge: {configured!r} is not a mapping of keys to values")
    given = dict(overrides or {})
    values = {**configured, **given}
    if "margins" in given:
        values["margins"] = {**(configured.get("margins") or {}), **given["margins"]}
    return from_values(values)


def from_values(values: Mapping[str, Any]) -> Policy:
    """Raises ConfigError: one line naming the key, the value and what is allowed."""
    try:
        config = JudgeConfig.model_validate(dict(values))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = key_of(problem)
        if problem["type"] == "extra_forbidden":
            raise ConfigError(f"judge: unknown key {key!r}; {nearest(key, JudgeConfig.model_fields)}") from error
        raise ConfigError(f"judge.{key}: {problem['input']!r} is not allowed; {reason_of(problem)}") from error
    return Policy(**config.model_dump())
