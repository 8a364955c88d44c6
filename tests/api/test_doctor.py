"""What a machine can do, from Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import DATA
from support.commands import use_installation
from support.model_folder import write_safetensors

import kveval
from kveval.api import doctor
from kveval.api.machine.gpus import Gpu
from kveval.config.engine import EngineConfig
from kveval.engines.base import Installation
from kveval.engines.variants import Device
from kveval.errors import EngineNotInstalledError


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: pytest.MonkeyPatch, installation: Installation) -> None:
    monkeypatch.setattr(doctor, "list_gpus", list)
    use_installation(monkeypatch, installation)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Llama-3.1-8B's config.json beside weights of 16 GiB, as a sparse file."""
    (tmp_path / "config.json").write_text((DATA / "configs" / "llama-3.1-8b.json").read_text())
    write_safetensors(tmp_path / "model.safetensors", ["a"])
    with (tmp_path / "model.safetensors").open("r+b") as file:
        file.truncate(16 << 30)
    return tmp_path


def use_gpu(monkeypatch: pytest.MonkeyPatch, installation: Installation, gib: int | None) -> None:
    use_installation(monkeypatch, replace(installation, device=Device("cuda", architecture="sm_90")))
    size = None if gib is None else gib << 30
    monkeypatch.setattr(doctor, "list_gpus", lambda: [Gpu("0", "GPU-a", "1", size, size, "a GPU")])


def states(machine: doctor.Machine) -> dict[str, str]:
    return {check.name: check.state for check in machine.checks}


def test_a_machine_that_can_measure() -> None:
    machine = kveval.check_machine()
    assert machine.can_sweep
    assert machine.next_command == "kveval sweep demo"
    assert [*states(machine)] == [
        "vLLM", "plugin", "device", "cache dtypes", "memory", "disk for runs", "disk for texts", "texts",
    ]  # fmt: skip


def test_no_engine_is_missing_and_the_rest_is_still_said(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[EngineConfig] = []

    def absent(config: EngineConfig) -> Installation:
        asked.append(config)
        raise EngineNotInstalledError("no engine: python has no vLLM; install it")

    monkeypatch.setattr(doctor, "find_installation", absent)
    machine = kveval.check_machine(python="/opt/python")
    assert asked[0].python == Path("/opt/python")
    assert (machine.can_sweep, machine.next_command) == (False, "")
    assert states(machine)["vLLM"] == "missing"
    assert "texts" in states(machine)


def test_a_model_on_a_gpu(monkeypatch: pytest.MonkeyPatch, installation: Installation, model: Path) -> None:
    use_gpu(monkeypatch, installation, 80)
    machine = kveval.check_machine(model=model)
    # 80 GiB x 0.92 - 16 GiB hold 57.6 GiB of cache; 16 GiB are a whole window.
    fits = next(check for check in machine.checks if check.name == "fits in bfloat16")
    assert "up to 131,072 tokens; at once 115 of 4,096" in fits.found
    assert machine.next_command == f"kveval sweep gpu --model {model}"


def test_weights_that_leave_no_room(monkeypatch: pytest.MonkeyPatch, installation: Installation, model: Path) -> None:
    use_gpu(monkeypatch, installation, 16)
    machine = kveval.check_machine(model=model)
    (problem,) = (check for check in machine.checks if check.state == "missing")
    assert not machine.can_sweep
    assert "weights take 16.00 GiB" in problem.found
    assert "more devices" in problem.todo


def test_a_gpu_whose_memory_is_not_known(
    monkeypatch: pytest.MonkeyPatch, installation: Installation, model: Path
) -> None:
    use_gpu(monkeypatch, installation, None)
    machine = kveval.check_machine(model=model)
    assert states(machine)["model in memory"] == "note"
    assert machine.can_sweep


def test_a_model_larger_than_the_memory(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    monkeypatch.setattr(doctor, "available_bytes", lambda: 17 << 30)
    machine = kveval.check_machine(model=model)
    assert states(machine)["model in memory"] == "missing"
    monkeypatch.setattr(doctor, "available_bytes", lambda: 18 << 30)
    assert "model in memory" not in states(kveval.check_machine(model=model))


def test_a_folder_that_holds_no_model(tmp_path: Path) -> None:
    machine = kveval.check_machine(model=tmp_path / "none")
    assert states(machine)["model"] == "missing"


@pytest.mark.usefixtures("empty_cache")
def test_a_demo_model_is_not_fetched_to_look_at_it() -> None:
    machine = kveval.check_machine(model="smollm2")
    check = next(check for check in machine.checks if check.name == "model")
    assert (check.state, check.todo) == ("note", "kveval data fetch smollm2")
