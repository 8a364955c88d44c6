"""The policy: the run's own configuration, changed by what is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.make_run import make_run, scored

from kveval.config.judge import Policy
from kveval.errors import ConfigError
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.policy import policy_of
from kveval.judge.run_data import load_run
from kveval.run.manifest import Manifest


def manifest(tmp_path: Path, judge: Any) -> Manifest:
    config = {} if judge is None else {"judge": judge}
    return load_run(make_run(tmp_path / "run", answers={"bf16": scored(1)}, manifest={"config": config})).manifest


def test_without_a_configuration_it_is_the_default(tmp_path: Path) -> None:
    assert policy_of(manifest(tmp_path, None)) == Policy()


def test_given_keys_replace_configured_ones_and_margins_add_up(tmp_path: Path) -> None:
    configured = {"margin": 0.05, "margins": {"needle": 0.01, "qa": 0.03}, "inconclusive": "allow"}
    policy = policy_of(manifest(tmp_path, configured), {"margin": 0.04, "margins": {"qa": 0.02}})
    assert policy == Policy(margin=0.04, margins={"needle": 0.01, "qa": 0.02}, undecided="allow")


def test_a_report_judges_by_it_too(tmp_path: Path) -> None:
    manifest(tmp_path, {"margin": 0.07, "confidence": 0.9})
    assert judge_run(load_run(tmp_path / "run")).policy == Policy(margin=0.07, confidence=0.9)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ({"margin": 2}, "judge.margin: 2 is not allowed"),
        ({"margins": {"qa": 0}}, "judge.margins.qa: 0 is not allowed"),
        ({"margn": 0.1}, "did you mean 'margin'"),
        ([], None),
        ("strict", "not a mapping"),
    ],
)
def test_what_is_no_policy(tmp_path: Path, judge: Any, message: str | None) -> None:
    if message is None:
        assert policy_of(manifest(tmp_path, judge)) == Policy()
        return
    with pytest.raises(ConfigError, match=message):
        policy_of(manifest(tmp_path, judge))
