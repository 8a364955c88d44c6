from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from kveval.errors import PlanError
from kveval.measure.plan.plan import Plan
from kveval.tasks.assembly.prompt import PromptFormat

Planner = Callable[..., Plan]


@pytest.mark.parametrize("differs", ["tokenizer", "chat_template"])
def test_a_variants_own_checkpoint_must_spell_prompts_alike(
    plan_of: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, differs: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")

    def load(path: Path, *_: object) -> PromptFormat:
        plain = PromptFormat.stand_in()
        return dataclasses.replace(plain, **{f"{differs}_sha256": "0"}) if path == other else plain

    monkeypatch.setattr(PromptFormat, "load", load)
    with pytest.raises(PlanError, match=rf"variants\.fp8\.model: its {differs.replace('_', ' ')} differs"):
        plan_of(variants=["bf16", {"name": "fp8", "model": str(other)}])
