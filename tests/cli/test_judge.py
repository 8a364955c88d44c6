"""The commands that judge: bad flags, exit codes and files."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.judge_command import kveval
from support.make_run import BAD, GOOD, make_run


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--margin", "0"], "judge.margin: '0' is no margin between 0 and 1; use for 2 points: 0.02, 2pt or 2%"),
        (["--margin", "2"], "judge.margin: '2' is no margin between 0 and 1; use for 2 points: 0.02, 2pt or 2%"),
        (["--margin", "1.5"], "use for 1.5 points: 0.015, 1.5pt or 1.5%"),
        (["--margins", "needle=much"], "judge.margins.needle: 'much' is no margin between 0 and 1"),
        (["--confidence", "1"], "judge.confidence: '1' is not allowed"),
        (["--undecided", "ignore"], "judge.undecided: 'ignore' is not allowed"),
        (["--margins", "needle"], "is not NAME=NUMBER"),
        (["--margins", "nedle=0.1"], "did you mean 'needle'?"),
        (["--config", "no-such.yaml"], "neither a file nor a preset"),
    ],
)
def test_bad_flags_are_usage(tmp_path: Path, flags: list[str], message: str) -> None:
    path = make_run(tmp_path / "run", answers=GOOD)
    kveval("gate", path)
    before = {file: file.read_bytes() for file in path.iterdir() if file.is_file()}
    result = kveval("gate", path, *flags)
    assert result.code == 2
    assert message in result.text
    assert {file: file.read_bytes() for file in path.iterdir() if file.is_file()} == before


def test_a_bad_policy_in_the_run_is_usage(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers=GOOD, manifest={"config": {"judge": {"margn": 0.1}}})
    result = kveval("gate", path)
    assert result.code == 2
    assert "unknown key 'judge.margn'; did you mean 'margin'?" in result.text


def test_an_unknown_option_is_usage() -> None:
    assert kveval("gate", "run", "--no-such-option").code == 2
    assert kveval("gate").code == 2


def test_help_has_examples() -> None:
    for command in ("gate", "bless", "diff"):
        assert "Example" in kveval(command, "--help").text


def test_main_ends_with_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kveval.cli.app import main

    monkeypatch.setattr("sys.argv", ["kveval", "gate", str(make_run(tmp_path / "run", answers=BAD))])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
