from __future__ import annotations

import json
from pathlib import Path

import pytest

from kveval.config.judge import Policy
from kveval.report.documents.summary import summary
from kveval.run.storage import to_json


def test_summary_is_strict_json(run: Path) -> None:
    document = json.loads(to_json(summary(run)))
    assert document["partial"] is False
    assert document["policy"]["margin"] == 0.02
    rows = {(row["variant"], row["context_length"]): row for row in document["rows"]}
    assert len(rows) == 5 * 3
    fp8 = rows["fp8", 8192]
    assert (fp8["n"], fp8["haystacks"], fp8["asked"], fp8["verdict"]) == (300, 300, 300, "fail")
    assert fp8["delta"] == pytest.approx(fp8["score"] - fp8["baseline_score"])
    assert fp8["low"] < fp8["delta"] < fp8["high"]
    assert rows["fp8", None]["attribution"]["kernel"]["delta"] < -0.05
    assert rows["nvfp4", None]["verdict"] == "undecided"
    assert rows["bf16", 2048]["role"] == "baseline"
    assert rows["fp8-control", None]["verdict"] is None


def test_a_policy_replaces_that_of_the_run(run: Path) -> None:
    assert summary(run, Policy(margin=0.5))["headlines"][0]["word"] == "pass"
