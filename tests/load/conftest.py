"""Plans of small load measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.loads import SMALL, TOKENS, Planner

from kveval.config.sweep import validate_config
from kveval.engines.base import Installation
from kveval.load.plan import LoadPlan, make_load_plan


@pytest.fixture(autouse=True)
def _stand_in_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.load.stage.ordinary_tokens", lambda *_: TOKENS)
    monkeypatch.setattr("kveval.measure.provenance.git_state", lambda _: None)


@pytest.fixture
def load_plan(stand_in: None, checkpoint: Path, installation: Installation) -> Planner:
    def plan(load: dict[str, Any] | None = None, **changes: Any) -> LoadPlan:
        config = {
            "model": str(checkpoint), "variants": ["bf16", "fp8"], "context_lengths": [512], "tasks": ["niah_single"],
            "load": SMALL | (load or {}), "requests": {"timeout_s": 5.0},
        }  # fmt: skip
        return make_load_plan(validate_config(config | changes), installation)

    return plan
