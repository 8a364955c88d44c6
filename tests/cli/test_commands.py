from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from kveval.cli import commands
from kveval.cli.commands import plan_sweep, plan_table, show_task
from kveval.engines.vllm.installation import Installation
from kveval.errors import InterruptedRunError, UsageError


@pytest.fixture
def config(
    stand_in: None, checkpoint: Path, installation: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., str]:
    monkeypatch.setattr(commands, "find_installation", lambda _: installation)

    def write(**changes: Any) -> str:
        given = {
            "model": str(checkpoint), "variants": ["bf16", "int8"], "context_lengths": [512], "tasks": ["niah_single"],
            "samples": 4, "haystack": "generated",
        }  # fmt: skip
        path = tmp_path / "nightly.yaml"
        path.write_text(yaml.safe_dump(given | changes))
        return str(path)

    return write


def test_the_default_run_directory_has_the_configurations_name(config: Callable[..., str]) -> None:
    assert commands._load(config(), {}).out == Path("runs/nightly")
    assert commands._load(config(out="elsewhere"), {}).out == Path("elsewhere")
    assert commands._load(config(out="elsewhere"), {"out": Path("flag")}).out == Path("flag")
    assert commands._load("demo", {}).out == Path("runs/demo")


def test_a_plan_for_a_terminal_says_what_the_data_says(config: Callable[..., str]) -> None:
    plan = json.loads(json.dumps(plan_sweep(config(), {})))
    out = io.StringIO()
    Console(file=out, width=140).print(plan_table(plan))
    text = out.getvalue()
    for variant in plan["variants"]:
        assert variant["name"] in text
    assert "int8 per_token_head" in text
    assert f"{plan['prefill_tokens_with_sharing']:,}" in text
    assert plan["model"] in text


def test_a_plan_says_where_it_could_not_be_written(config: Callable[..., str], tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    assert not any("nothing could be measured" in note for note in plan_sweep(config(out=str(taken)), {})["notes"])
    taken.write_text("a file")
    assert any(f"--out {taken}: is a file" in note for note in plan_sweep(config(out=str(taken)), {})["notes"])


@pytest.mark.parametrize(("seconds", "text"), [(30, "0.5 minutes"), (5399, "90.0 minutes"), (5400, "1.5 hours")])
def test_minutes(seconds: float, text: str) -> None:
    assert commands._minutes(seconds) == text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_work_clean_up_and_a_second_one_does_not_disturb_it(number: signal.Signals) -> None:
    cleaned: list[str] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, os.kill, os.getpid(), number)
        loop.call_later(0.03, os.kill, os.getpid(), number)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)
            cleaned.append("up")

    with pytest.raises(InterruptedRunError, match="--resume --out runs/x goes on") as caught:
        commands._interruptible(work(), Path("runs/x"))
    assert caught.value.exit_code == 128 + number
    assert cleaned == ["up"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_work_that_fails_or_ends_is_not_disturbed() -> None:
    async def ends() -> int:
        return 3

    async def fails() -> None:
        raise LookupError("lost")

    assert commands._interruptible(ends(), Path("x")) == 3
    with pytest.raises(LookupError, match="lost"):
        commands._interruptible(fails(), Path("x"))


def test_one_sample_is_shown() -> None:
    shown = show_task("niah_absent", 512, model=None, haystack="generated", seed=3)
    assert shown == show_task("niah_absent", 512, model=None, haystack="generated", seed=3)
    assert shown["sample_id"] != show_task("niah_absent", 512, model=None, haystack="generated", seed=4)["sample_id"]
    with pytest.raises(UsageError, match="'essay' is not a haystack style; did you mean 'essays'"):
        show_task("niah_single", 512, model=None, haystack="essay", seed=0)
