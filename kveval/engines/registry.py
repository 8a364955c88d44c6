"""Every engine that kveval can launch. To add one, add its launcher here."""

from __future__ import annotations

from pathlib import Path

from kveval.config.engine import EngineConfig
from kveval.engines.base import Engine, Installation, Launcher, ServerPlan
from kveval.engines.openai.engine import AttachedEngine
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.engine import open_vllm
from kveval.engines.vllm.installation import find_vllm
from kveval.errors import ConfigError, nearest

LAUNCHERS: dict[str, Launcher] = {
    "vllm": Launcher(find_vllm, open_vllm),
}


def find_installation(config: EngineConfig) -> Installation:
    """Returns the engine that a configuration launches.

    Raises:
        ConfigError: kveval knows no such engine.
        EngineNotInstalledError: it is not installed, or does not run.
    """
    return _launcher(config).find(config)


def open_engine(plan: ServerPlan, variant: ResolvedVariant, log_path: Path) -> Engine:
    """Returns the server of a variant: the endpoint it names, or a server to launch."""
    if variant.config.endpoint is not None:
        return AttachedEngine(plan, variant, variant.config.endpoint)
    return _launcher(plan.config.engine).open(plan, variant, log_path)


def _launcher(config: EngineConfig) -> Launcher:
    name = config.name or "vllm"
    if name not in LAUNCHERS:
        raise ConfigError(f"engine.name: {name!r} is not an engine; {nearest(name, LAUNCHERS)}")
    return LAUNCHERS[name]
