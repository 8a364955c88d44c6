from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kveval.measure.plan.inputs import hash_inputs
from kveval.measure.plan.plan import Plan

Planner = Callable[..., Plan]


def test_inputs_name_everything_that_decides_answers(plan_of: Planner, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")
    inputs = hash_inputs(plan_of(variants=["bf16", {"name": "fp8", "model": str(other)}]))
    assert sorted(inputs) == [
        "model of fp8/config.json", "model/config.json", "model/model.safetensors", "task/niah_single", "tokenizer",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "is_another"),
    [
        ("own/mine.yaml", True),
        ("own/scorer.py", True),
        ("own/weights.json", True),
        ("own/large.bin", True),
        ("own/.mine.yaml.swp", False),
        ("own/__pycache__/scorer.pyc", False),
        ("other/yours.py", False),
        ("nightly.yaml", False),
    ],
)
def test_a_changed_file_of_ones_own_is_another_run(
    plan_of: Planner, own_tasks: Path, name: str, is_another: bool
) -> None:
    plan = plan_of(include_path=str(own_tasks), tasks=["mine", "niah_single"])
    (own_tasks / "own" / "large.bin").write_bytes(bytes(10_000_001))
    before = hash_inputs(plan)
    assert hash_inputs(plan) == before
    (own_tasks / name).parent.mkdir(exist_ok=True)
    with (own_tasks / name).open("a") as file:
        file.write("# changed\n")
    now = hash_inputs(plan)
    assert {key for key in now if now[key] != before[key]} == ({"task/mine/files"} if is_another else set())
