from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kveval.config.read import load_config
from kveval.config.sweep import SweepConfig, validate_config
from kveval.errors import ConfigError


def config(*tasks: Any, **changes: Any) -> SweepConfig:
    return validate_config({"model": "/m", "variants": ["bf16", "fp8"], "tasks": list(tasks), **changes})


def test_a_file_is_a_task_named_by_its_stem() -> None:
    first, second, third = config(
        {"file": "a/prompts.jsonl"}, "b/others.jsonl", {"file": "c.jsonl", "name": "mine", "samples": 3}
    ).tasks
    assert (first.name, first.file, first.has_fixed_prompts) == ("prompts", Path("a/prompts.jsonl").absolute(), True)
    assert (second.name, second.file) == ("others", Path("b/others.jsonl").absolute())
    assert (third.name, third.samples) == ("mine", 3)


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ({"samples": 3}, "tasks.0: name, file: neither given; use the name of a task, or a file of prompts"),
        ({"fil": "p.jsonl"}, r"unknown key 'tasks.0.fil'; did you mean 'file'"),
        ({"file": "p.jsonl", "haystack": "essays"}, "haystack: p has fixed prompts, .*; leave haystack out"),
        ({"name": "lm_eval:x", "context_lengths": ["4k"]}, "context_lengths: lm_eval:x has fixed prompts"),
        ({"file": "my prompts.jsonl"}, "name: 'my prompts' of the prompts in .*/my prompts.jsonl is not a task name"),
        ({"file": "p.jsonl", "name": "../x"}, "name: '../x'"),
        ({"file": 5, "name": "x"}, "tasks.0.file"),
        ({"file": "p.jsonl", "samples": 0}, "tasks.0.samples: 0 is not allowed"),
    ],
)  # fmt: skip
def test_what_is_not_allowed(task: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        config(task, context_lengths=["4k"])


def test_two_files_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="tasks: p is listed twice"):
        config("a/p.jsonl", "b/p.jsonl")


def test_files_are_meant_from_where_the_configuration_lies(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}")
    (tmp_path / "guard.yaml").write_text("task: x")
    tasks = [{"file": "rows.jsonl", "samples": 2}, "lm_eval:guard.yaml", {"file": "elsewhere.jsonl"}]
    (tmp_path / "night.yaml").write_text(yaml.safe_dump({"model": "/m", "variants": ["bf16"], "tasks": tasks}))
    first, second, third = load_config(str(tmp_path / "night.yaml")).tasks
    assert first.file == tmp_path / "rows.jsonl"
    assert second.name == f"lm_eval:{tmp_path / 'guard.yaml'}"
    assert third.file == Path("elsewhere.jsonl").absolute()


def test_a_flag_picks_a_file_by_its_name(tmp_path: Path) -> None:
    tasks = [{"file": "rows.jsonl", "samples": 2}, "others.jsonl", "niah_single"]
    (tmp_path / "night.yaml").write_text(
        yaml.safe_dump({"model": "/m", "variants": ["bf16"], "context_lengths": ["4k"], "tasks": tasks})
    )
    picked = load_config(str(tmp_path / "night.yaml"), {"tasks": ["rows", "others", "lm_eval:gsm8k", "more.jsonl"]})
    assert [(task.name, task.samples) for task in picked.tasks] == [
        ("rows", 2), ("others", None), ("lm_eval:gsm8k", None), ("more", None),
    ]  # fmt: skip
    assert [task.file is not None for task in picked.tasks] == [True, True, False, True]
