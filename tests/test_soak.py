"""The soak's short form: one case each of faults that differ most. `scripts/bench soak` runs all of them."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from support import ROOT
from test_bench import bench

from kveval.api.source import read_config

SHORT = (
    "nothing", "harness_killed", "harness_interrupted", "launched_server_killed", "attached_server_killed",
    "restarted_with_other_flags", "some_half_answers", "passing_storm", "metrics_lost_for_a_while", "counters_spoiled",
)  # fmt: skip


def test_ten_faults_end_as_they_should() -> None:
    chosen = [word for name in SHORT for word in ("--fault", name)]
    result = bench("soak", "--cases", "100", "--once", *chosen)
    assert result.stdout, result.stderr
    soaked = json.loads(result.stdout)["soak"]
    assert soaked["wrong"] == []
    assert soaked["unfinished"] == []
    assert soaked["right"] == len(SHORT)
    assert result.returncode == 0


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import benchmarks.soak

    return benchmarks.soak


def test_a_case_is_drawn_again_by_its_number(soak: ModuleType) -> None:
    assert all(soak.draw(3, number, name) == soak.draw(3, number, name) for number, name in enumerate(soak.FAULTS))


def test_no_fault_allows_the_code_of_a_crash(soak: ModuleType) -> None:
    for number, name in enumerate(soak.FAULTS):
        case = soak.draw(0, number, name)
        allowed = case.sweep | case.gate | case.resumed | case.resumed_gate
        assert 70 not in allowed
        assert 1 not in case.sweep | case.resumed | case.resumed_gate


def test_what_ends_wrongly_is_told(soak: ModuleType) -> None:
    ended = soak.Ended(["sweep", "--resume"], 1, "Traceback (most recent call last)", 3.0, ["engine --port 1"])
    assert list(soak.wrongly_ended(ended, frozenset({0}))) == [
        "sweep --resume: ended with 1, right is [0]: Traceback (most recent call last)",
        "sweep --resume: printed a traceback",
        "sweep --resume: left 1 processes running: engine --port 1",
    ]
    assert list(soak.wrongly_ended(soak.Ended(["gate"], None, "", 90.0), frozenset({0}))) == [
        "gate: did not end within 90.0 s"
    ]


def test_every_case_of_a_real_engine_has_a_configuration_that_holds(soak: ModuleType, tmp_path: Path) -> None:
    for number, name in enumerate(soak.REAL):
        case = soak.on_real_engine(soak.draw(0, number, name), 40)
        folder = tmp_path / name
        with soak.Stage(folder, case, None, None) as stage:
            config = read_config(folder / "soak.yaml", None, {})
        assert stage.questions == 40
        assert [variant.endpoint for variant in config.variants] == [None, None]
        assert not case.servers
        assert case.act is None or case.act.after < 40
