"""What the shell offers, and that it stays silent where there is nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.make_run import GOOD, make_run, make_samples

from kveval.cli.start import completion


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of_run(path: str) -> Any:
    return SimpleNamespace(params={"run": Path(path)})


def test_presets_and_files() -> None:
    Path("demand.yaml").touch()
    assert set(completion.complete_config("dem")) == {"demo", "demo-float32", "demand.yaml"}


def test_runs_and_their_samples() -> None:
    assert completion.complete_run("") == []
    samples = make_samples(lengths=(2048,), haystacks=1, questions=3)
    make_run(Path("runs/night"), samples=samples, answers=GOOD)
    Path("runs/notes").mkdir()
    assert completion.complete_run("") == completion.complete_run("runs/n") == ["runs/night"]
    first = samples[0].sample_id
    assert first in completion.complete_sample(of_run("runs/night"), "")
    assert completion.complete_sample(of_run("runs/night"), first[:6]) == [first]


@pytest.mark.parametrize("text", ["{", "[]", "{}", "\0"])
def test_a_broken_run_offers_nothing(text: str) -> None:
    Path("samples.jsonl").write_text(text)
    assert completion.complete_sample(of_run("."), "") == []
    assert completion.complete_sample(of_run("none"), "") == []


def test_names_behind_a_comma() -> None:
    assert completion.complete_tasks("niah_single,niah_multik") == ["niah_single,niah_multikey"]
    assert "bf16,fp8" in completion.complete_variants("bf16,f")
    assert "bf16,bf16" not in completion.complete_variants("bf16,b")
