"""Launches vLLM for a plan."""

from __future__ import annotations

from pathlib import Path

from kveval.config.engine import EngineConfig
from kveval.engines.base import ServerPlan
from kveval.engines.installation import Installation
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.engine import VLLMEngine
from kveval.engines.vllm.installation import find_installation


class VLLMLauncher:
    def find(self, config: EngineConfig) -> Installation:
        return find_installation(config)

    def open(self, plan: ServerPlan, variant: ResolvedVariant, log_path: Path) -> VLLMEngine:
        return VLLMEngine(
            variant,
            config=plan.config.engine,
            installation=plan.installation,
            model=plan.models[variant.name].path,
            max_model_len=plan.max_model_len,
            logprobs=plan.config.requests.logprobs,
            log_path=log_path,
        )
