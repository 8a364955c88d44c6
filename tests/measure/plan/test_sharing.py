"""How often haystacks are prefilled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.model_configs import published_config
from support.sweeps import Planner

from kveval.measure.plan.describe import describe
from kveval.measure.plan.sharing import engines_of, prefills_to_share, sharing_findings
from kveval.models.checkpoint import Model


def model(name: str) -> Model:
    return Model(Path(name), published_config(name), None, 0)


@pytest.mark.parametrize(
    ("name", "flags", "prefills"),
    [
        ("llama-3.1-8b", {}, 1),
        ("gemma-3-27b", {}, 2),
        ("qwen3-next-80b-a3b", {}, 2),
        # One kind of layers alone is kept whole.
        ("mistral-7b-v0.1", {}, 1),
        ("llama-4-scout", {}, 1),
        ("gemma-3-27b", {"prefix-cache-retention-interval": 512}, 1),
        ("gemma-3-27b", {"prefix-cache-retention-interval": 0}, 2),
    ],
)
def test_layers_with_a_window_or_a_state_share_from_the_third_question_on(
    name: str, flags: dict[str, Any], prefills: int
) -> None:
    assert prefills_to_share(model(name), flags) == prefills
    codes = [finding.code for finding in sharing_findings("bf16", model(name), flags)]
    assert codes == (["second_prefill"] if prefills == 2 else [])


@pytest.mark.parametrize(
    ("flags", "engines"), [({}, 1), ({"data-parallel-size": 4}, 4), ({"data-parallel-size": "x"}, 1)]
)
def test_engines_with_a_prefix_cache_of_their_own(flags: dict[str, Any], engines: int) -> None:
    assert engines_of(flags) == engines
    codes = [finding.code for finding in sharing_findings("bf16", model("llama-3.1-8b"), flags)]
    assert codes == (["data_parallel"] if engines > 1 else [])


def test_the_plan_counts_the_prefills(plan_of: Planner, checkpoint: Path) -> None:
    plain = plan_of()
    assert (plain.leading_of(plain.variants[0]), plain.prefills_of(plain.variants[0])) == (1, 1)
    config = json.loads((checkpoint / "config.json").read_text())
    hybrid = {key: value for key, value in published_config("gemma-3-270m").items() if "position" not in key}
    (checkpoint / "config.json").write_text(json.dumps(config | hybrid))
    plan = plan_of(engine={"args": {"data-parallel-size": 2}})
    assert (plan.leading_of(plan.variants[0]), plan.prefills_of(plan.variants[0])) == (2, 4)
    before, after = describe(plain), describe(plan)
    assert after["prefill_tokens_with_sharing"] > before["prefill_tokens_with_sharing"]
    assert any("the second question of each haystack is prefilled again" in note for note in after["notes"])
