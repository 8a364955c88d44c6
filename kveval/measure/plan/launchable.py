"""What launching or attaching to a server needs of a plan, a sweep's or another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kveval.config.sweep import SweepConfig
from kveval.engines.vllm.installation import Installation
from kveval.models.checkpoint import Model
from kveval.tasks.assembly.prompt import PromptFormat


class Launchable(Protocol):
    @property
    def config(self) -> SweepConfig: ...
    @property
    def installation(self) -> Installation: ...
    @property
    def models(self) -> Mapping[str, Model]: ...
    @property
    def prompt_format(self) -> PromptFormat: ...
    @property
    def max_model_len(self) -> int: ...
