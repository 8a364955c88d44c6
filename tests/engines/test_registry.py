"""Which engine a variant is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kveval.config.engine import EngineConfig
from kveval.engines.openai.engine import AttachedEngine
from kveval.engines.registry import find_installation, open_engine
from kveval.engines.vllm.engine import VLLMEngine
from kveval.errors import ConfigError
from kveval.measure.plan.plan import Plan

Planner = Callable[..., Plan]


def test_vllm_is_launched_by_default(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    engine = open_engine(plan, plan.variants[1], tmp_path / "fp8.log")
    assert isinstance(engine, VLLMEngine)
    command = engine.command(1234)
    assert command[:3] == ["vllm", "serve", str(plan.model.path)]
    assert command[command.index("--kv-cache-dtype") + 1] == "fp8"
    assert command[command.index("--max-model-len") + 1] == str(plan.max_model_len)


def test_a_variant_with_an_endpoint_is_attached_to(plan_of: Planner, tmp_path: Path) -> None:
    endpoint = {"url": "http://127.0.0.1:1", "model": "m"}
    plan = plan_of(variants=[{"name": "bf16", "kv_cache_dtype": "bfloat16", "endpoint": endpoint}])
    assert isinstance(open_engine(plan, plan.variants[0], tmp_path / "bf16.log"), AttachedEngine)


def test_an_unknown_engine_is_named(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(engine={"name": "vlm"})
    for ask in (
        lambda: open_engine(plan, plan.variants[0], tmp_path / "log"),
        lambda: find_installation(EngineConfig(name="vlm")),
    ):
        with pytest.raises(ConfigError, match=r"engine.name: 'vlm' is not an engine; did you mean 'vllm'"):
            ask()
