"""The policy of a run: what its configuration says, changed by what the command line gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from kveval.config.judge import Policy
from kveval.config.messages import key_of, reason_of
from kveval.errors import ConfigError, nearest
from kveval.run.manifest import Manifest


def policy_of(manifest: Manifest, overrides: Mapping[str, Any] | None = None) -> Policy:
    """Returns the policy the run was configured with. `overrides` replace its keys, and `margins` single families.

    Raises:
        ConfigError: an unknown key, or a value that is not allowed.
    """
    configured = manifest.config.get("judge") or {}
    if not isinstance(configured, Mapping):
        raise ConfigError(f"judge: {configured!r} is not a mapping of keys to values")
    given = dict(overrides or {})
    values = {**configured, **given}
    if "margins" in given:
        values["margins"] = {**(configured.get("margins") or {}), **given["margins"]}
    return policy_from(values)


def policy_from(values: Mapping[str, Any]) -> Policy:
    """Returns `values` as a policy.

    Raises:
        ConfigError: one line that names the key, the value and what to use instead.
    """
    try:
        return Policy.model_validate(dict(values))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = key_of(problem)
        if problem["type"] == "extra_forbidden":
            raise ConfigError(f"judge: unknown key {key!r}; {nearest(key, Policy.model_fields)}") from error
        raise ConfigError(f"judge.{key}: {problem['input']!r} is not allowed; {reason_of(problem)}") from error
