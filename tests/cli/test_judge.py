"""The commands that judge: bad flags, exit codes and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.judge_command import document, kveval
from support.make_run import BAD, GOOD, make_run


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--margin", "0"], "judge.margin: 0.0 is not allowed"),
        (["--confidence", "1"], "judge.confidence: 1.0 is not allowed"),
        (["--undecided", "ignore"], "judge.undecided: 'ignore' is not allowed"),
        (["--margins", "needle"], "is not NAME=NUMBER"),
        (["--margins", "nedle=0.1"], "did you mean 'needle'?"),
        (["--config", "no-such.yaml"], "neither a file nor a preset"),
    ],
)
def test_bad_flags_are_usage(tmp_path: Path, flags: list[str], message: str) -> None:
    path = make_run(tmp_path / "run", answers=GOOD)
    result = kveval("gate", path, *flags)
    assert result.code == 2
    assert message in result.text


def test_a_bad_policy_in_the_run_is_usage(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers=GOOD, manifest={"config": {"judge": {"margn": 0.1}}})
    result = kveval("gate", path)
    assert result.code == 2
    assert "unknown key 'judge.margn'; did you mean 'margin'?" in result.text


def test_an_unknown_option_is_usage() -> None:
    assert kveval("gate", "run", "--no-such-option").code == 2
    assert kveval("gate").code == 2


def test_a_crash_is_not_called_a_regression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_run(tmp_path / "run", answers=GOOD)

    def crash(*_: Any, **__: Any) -> None:
        raise TypeError("oops")

    monkeypatch.setattr("kveval.report.files.gate.gate", crash)
    result = kveval("gate", path)
    assert result.code == 70
    assert "kveval itself failed: TypeError: oops" in result.text
    assert document(path)["verdict"] == "infrastructure"


def test_a_broken_run_is_not_blessed(tmp_path: Path) -> None:
    stopped = make_run(tmp_path / "stopped", answers=GOOD, variants={"same": {"status": "stopped"}})
    assert kveval("bless", stopped, "--out", tmp_path / "b.json").code == 3
    assert kveval("bless", tmp_path / "nowhere", "--out", tmp_path / "b.json").code == 2
    good = make_run(tmp_path / "good", answers=GOOD)
    assert kveval("bless", good, "--out", tmp_path).code == 2
    assert not (tmp_path / "b.json").exists()


def test_a_failing_run_may_be_blessed_and_says_so(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers=BAD)
    result = kveval("bless", path, "--out", tmp_path / "b.json")
    assert result.code == 0
    assert "the gate calls this run: regression" in result.text


def test_help_has_examples() -> None:
    for command in ("gate", "bless", "diff"):
        assert "Example" in kveval(command, "--help").text


def test_main_ends_with_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kveval.cli.app import main

    monkeypatch.setattr("sys.argv", ["kveval", "gate", str(make_run(tmp_path / "run", answers=BAD))])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
