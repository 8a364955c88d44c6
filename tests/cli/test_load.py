"""`kveval load` as users see it, and what the report shows of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.commands import Kveval, answer_loads, use_installation
from support.scripted import Reply, ScriptedEngines, always

from kveval.engines.base import Installation
from kveval.report.documents.load import load_summary
from kveval.run.load_results import read_load

WORDS = always(Reply("a b c d e", finish_reason="length"))


@pytest.fixture
def config(
    stand_in: None, checkpoint: Path, installation: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> str:
    use_installation(monkeypatch, installation)
    monkeypatch.setattr("kveval.load.stage.ordinary_tokens", lambda *_: tuple(range(100, 400)))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "nightly.yaml"
    given = {
        "model": str(checkpoint), "variants": ["bf16", "fp8", "int8"], "context_lengths": [512],
        "tasks": ["niah_single"], "haystack": "generated", "out": "runs/nightly",
        "load": {"requests": 3, "output_tokens": 5, "prompt_lengths": [64], "warmup_requests": 1},
    }  # fmt: skip
    path.write_text(yaml.safe_dump(given))
    return str(path)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngines:
    return answer_loads(monkeypatch, ScriptedEngines(WORDS))


def test_a_dry_run_starts_nothing(kveval: Kveval, config: str, engines: ScriptedEngines) -> None:
    code, out, _ = kveval("load", config, "--dry-run", "--json", "--concurrency", "2,4", "--rates", "0.5")
    plan = json.loads(out)
    assert code == 0
    assert [level["level"] for level in plan["levels"]] == [
        "closed 2, 64 tokens", "closed 4, 64 tokens", "open 0.5/s, 64 tokens", "longest, 512 tokens"
    ]  # fmt: skip
    # Twice the concurrency at least.
    assert plan["requests"] == 3 * ((4 + 1) + (8 + 1) + (3 + 1) + 1)
    assert plan["engine_launches"] == 3
    assert engines.launches == []
    assert "closed 1, 64" in kveval("load", config, "--dry-run")[1]


def test_figures_are_printed_stored_and_compared(kveval: Kveval, config: str, engines: ScriptedEngines) -> None:
    code, out, err = kveval("load", config, "--json", "--no-longest-context", "--concurrency", "2")
    assert code == 0, err
    assert "bf16: load 1 of 1: closed 2, 64 tokens" in err
    document = json.loads(out)
    assert document["complete"]
    rows = {row["variant"]: row for row in document["rows"]}
    assert rows["bf16"]["ratios"] is None
    assert rows["fp8"]["ratios"]["output_tokens_per_s"] == pytest.approx(
        rows["fp8"]["output_tokens_per_s"] / rows["bf16"]["output_tokens_per_s"], abs=1e-3
    )
    assert rows["fp8"]["ttft_ms"]["n"] == 4
    assert rows["int8"]["emulated"]
    stored = read_load(Path("runs/nightly"))
    assert stored is not None
    assert load_summary(stored) == document

    code, _, err = kveval("load", config, "--concurrency", "2")
    assert code == 2
    assert "holds load.json already; use: another folder, or --resume" in err
    code, out, _ = kveval("load", config, "--concurrency", "2", "--no-longest-context", "--resume")
    assert code == 0
    assert "emulated: this is not the speed of the format" in " ".join(out.split())
    assert len(engines.launches) == 3


def test_a_variant_that_fails_is_exit_code_3(kveval: Kveval, config: str, engines: ScriptedEngines) -> None:
    engines.fail_to_start["fp8"] = (1, "fp8: out of luck")
    code, out, err = kveval("load", config, "--concurrency", "2", "--no-longest-context")
    assert code == 3
    assert "error: the load is incomplete: fp8 failed: fp8: out of luck" in err
    assert "failed: fp8: out of luck" in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--concurrency", "two"], "load.concurrency.0: 'two' is not allowed"),
        (["--concurrency", ""], "load: concurrency, request_rates: both empty"),
        (["--lengths", "9k"], "load.prompt_lengths: 9216 prompt tokens and 5 output tokens do not fit"),
        (["--output-tokens", "1"], "load.output_tokens: '1' is not allowed"),
        (["--resume", "--dry-run"], "--resume: goes on with a measurement"),
    ],
)
def test_what_is_wrong_is_one_line(kveval: Kveval, config: str, flags: list[str], message: str) -> None:
    code, _, err = kveval("load", config, *flags)
    assert code == 2
    assert message in err
    assert len([line for line in err.splitlines() if line.startswith("error")]) == 1
