"""Speed under load in the report and in a terminal."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from support.loads import load_document
from support.scripted import Oracle, Reply, ScriptedEngines, always

from kveval.load import run as load_run
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.report.documents.load import load_summary
from kveval.report.html.report import build_report
from kveval.report.sections.load.section import load_tables
from kveval.report.terminal.load import load_table

WORDS = always(Reply("a b c d e", finish_reason="length"))


async def test_the_report_shows_it(plan_of: Callable[..., Plan], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("kveval.load.stage.ordinary_tokens", lambda *_: tuple(range(100, 400)))
    monkeypatch.setattr("kveval.measure.provenance.git_state", lambda _: None)
    out = tmp_path / "run"
    load = {"requests": 3, "output_tokens": 5, "prompt_lengths": [64], "concurrency": [2], "longest_context": False}
    plan = plan_of(load=load)
    oracle = Oracle(plan)
    engines = ScriptedEngines(
        lambda prompt, body: WORDS(prompt, body) if body.get("ignore_eos") else oracle(prompt, body)
    )
    stage = load_run.load_stage(plan, out, resume=False, on_status=lambda _: None)
    assert stage is not None
    await sweep(plan, out, resume=False, reporter=SilentReporter(), stages=[stage], open_engine=engines)
    document = stage.finish()

    page = build_report(out).read_text()
    assert "Under load" in page
    assert page.count("<td>closed 2</td>") == 2
    assert "KV capacity: computed and reported" in page
    assert "from launch to first token" in page
    console = Console(file=io.StringIO(), width=80)
    console.print(load_table(document))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0].startswith("closed 2, 64 tokens, 5 output tokens")
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert {row["completed"] for row in load_summary(document)["rows"]} == {4}


def test_every_row_stands_beside_the_baselines_of_its_level() -> None:
    tables = load_tables(load_document(bf16=[100.0] * 6, fp8=[50.0] * 6))
    base, fp8 = tables.rows
    assert (base.variant.name, base.ratios) == ("bf16", None)
    assert fp8.ratios == {"ttft": 0.5, "itl": 0.5, "latency": 0.5, "output_tokens_per_s": 1.0}


def test_a_variant_that_completed_nothing_has_no_ratio_of_times() -> None:
    *_, fp8 = load_tables(load_document(bf16=[100.0] * 6, fp8=[])).rows
    assert fp8.ratios == {"ttft": None, "itl": None, "latency": None, "output_tokens_per_s": 1.0}


def test_what_was_found_at_any_level_is_told_of_the_variant() -> None:
    _, fp8 = load_tables(load_document(bf16=[100.0] * 6, fp8=[50.0] * 5)).variants
    assert [finding.message for finding in fp8.findings] == ["fp8 failed"]
    assert (fp8.rss_peak_bytes, fp8.device_peak_bytes) == (None, None)
