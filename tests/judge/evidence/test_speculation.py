"""Speculating variants beside the same without, from a run directory alone."""

from __future__ import annotations

import json
from pathlib import Path

from support.make_run import scored
from support.speculating_runs import COUNTERS, rewording, run, speculating
from typer.testing import CliRunner

from kveval.cli.app import app
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.evidence.speculation import Drafts, drafts, speculations
from kveval.judge.run_data import load_run
from kveval.report.documents.summary import summary


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
    assert "vs tonight's bf16" in text


def test_diff_compares_them_sample_by_sample(tmp_path: Path) -> None:
    answers = {"bf16": scored(0.9), "bf16-ngram": rewording(0.2)}
    path = run(tmp_path / "run", answers, {"bf16-ngram": speculating("bf16")})
    text = kveval("diff", f"{path}:bf16", f"{path}:bf16-ngram")
    assert f"bf16-ngramof{path}:bf16-ngramagainstbf16of{path}:bf16" in "".join(text.split())
    assert "speculative_method: none -> ngram" in text
