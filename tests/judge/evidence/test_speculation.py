"""Speculating variants beside the same without, from a run directory alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.make_run import Answer, make_run, make_samples, scored
from typer.testing import CliRunner

from kveval.cli.app import app
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.evidence.speculation import Drafts, drafts, speculations
from kveval.judge.run_data import load_run
from kveval.report.documents.summary import summary
from kveval.report.html.report import build_report
from kveval.run.records import Outcome, SampleRow

COUNTERS = {
    "spec_drafts": 100.0, "spec_draft_tokens": 400.0, "spec_accepted_tokens": 150.0, "spec_accepted_at_0": 90.0,
    "spec_accepted_at_1": 60.0, "spec_accepted_at_10": 0.0, "generation_tokens": 250.0,
}  # fmt: skip


def rewording(share: float) -> Answer:
    """Right where `scored(0.9)` is, in other words on `share` of the samples."""

    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        given = scored(0.9)(row, rng)
        return (given[0], f"b{given[1]}") if given and rng.random() < share else given

    return answer


def speculating(partner: str | None, **changes: Any) -> dict[str, Any]:
    spec = {"kv_cache_dtype": "x", "speculative_config": {"method": "ngram"}, "without_speculation": partner}
    facts = {"storage": "native", "speculative_method": "ngram", "speculative_tokens": 4}
    return {"spec": spec, "facts": facts, "counters": COUNTERS, **changes}


def run(path: Path, answers: Mapping[str, Answer], variants: Mapping[str, Any]) -> Path:
    samples = make_samples(haystacks=8, questions=5)
    aa = {"bf16-aa": {"role": "aa", "of": "bf16"}} if "bf16-aa" in answers else {}
    return make_run(path, answers=answers, samples=samples, variants={**aa, **variants})


def kveval(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return " ".join(done.output.split())


def test_acceptance() -> None:
    assert drafts(COUNTERS) == Drafts(100, 400, 150, 0.375, 2.5, (0.9, 0.6, 0.0))
    assert drafts({"spec_drafts": 0.0}) == Drafts(0, 0, 0, None, None, ())
    assert drafts({"prompt_tokens": 1.0}) is None


def test_beside_the_partner_and_the_noise(tmp_path: Path) -> None:
    answers = {"bf16": scored(0.9), "bf16-aa": rewording(0.1), "fp8": scored(0.8), "fp8-ngram": rewording(0.3)}
    path = run(tmp_path / "run", answers, {"fp8-ngram": speculating("fp8")})
    loaded = load_run(path)
    (found,) = speculations(loaded, judge_run(loaded).policy)
    assert (found.variant, found.partner, found.method, found.tokens) == ("fp8-ngram", "fp8", "ngram", 4)
    overall = next(row for row in found.comparisons if row.scope.level == "overall")
    assert (overall.against, overall.verdict) == ("fp8", None)
    # Nested scores: what fp8 gets wrong beyond the tenth, its partner gets right.
    assert overall.flips.lost == 0
    assert overall.flips.gained > 0
    assert found.parting is not None
    assert 0 < found.parting.different < found.parting.samples == 80
    entry = summary(path)["speculation"][0]
    json.dumps(entry, allow_nan=False)
    assert 0 < entry["rows"][0]["aa"]["identical"] < 1
    text = kveval("gate", path)
    assert "quantization against bf16" in text


def test_the_terminal_and_the_report_show_it(tmp_path: Path) -> None:
    answers = {"bf16": scored(0.9), "bf16-aa": scored(0.9), "bf16-ngram": rewording(0.2), "fp8-ngram": scored(0.9)}
    variants = {"bf16-ngram": speculating("bf16"), "fp8-ngram": speculating(None)}
    path = run(tmp_path / "run", answers, variants)
    from rich.console import Console

    from kveval.report.terminal.summary import summary_table

    console = Console(width=200, record=True, file=(tmp_path / "out").open("w"))
    console.print(summary_table(path))
    text = console.export_text()
    assert "37.5% of 400 drafted tokens accepted, 2.50 tokens per draft step" in text
    assert "against bf16: " in text
    assert "(A/A: 100.0%)" in text
    assert "no variant does the same without speculation" in text
    page = build_report(path).read_text()
    assert '<h3 id="speculation">' in page
    assert "outputs differ from those of bf16" in page
    assert "no variant does the same without speculation" in page


def test_a_run_without_speculation_shows_nothing_of_it(tmp_path: Path) -> None:
    path = run(tmp_path / "run", {"bf16": scored(0.9), "fp8": scored(0.9)}, {})
    assert summary(path)["speculation"] == []
    assert 'id="speculation"' not in build_report(path).read_text()


@pytest.mark.parametrize("status", ["refused", "stopped", "planned"])
def test_a_variant_that_did_not_run(tmp_path: Path, status: str) -> None:
    variants = {"bf16-ngram": speculating("bf16", status=status, facts=None, counters={})}
    path = make_run(
        tmp_path / "run", answers={"bf16": scored(0.9)}, samples=make_samples(haystacks=8, questions=2),
        variants={**variants}, manifest={"status": "incomplete"},
    )  # fmt: skip
    entry = summary(path)["speculation"][0]
    assert (entry["drafts"], entry["method"], entry["tokens"]) == (None, "ngram", None)
    build_report(path)
    from rich.console import Console

    from kveval.report.terminal.summary import summary_table

    Console(file=(tmp_path / "out").open("w")).print(summary_table(path))


def test_diff_compares_them_sample_by_sample(tmp_path: Path) -> None:
    answers = {"bf16": scored(0.9), "bf16-ngram": rewording(0.2)}
    path = run(tmp_path / "run", answers, {"bf16-ngram": speculating("bf16")})
    text = kveval("diff", f"{path}:bf16", f"{path}:bf16-ngram")
    assert f"bf16-ngramof{path}:bf16-ngramagainstbf16of{path}:bf16" in "".join(text.split())
    assert "speculative_method: none -> ngram" in text
