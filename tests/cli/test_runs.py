"""`kveval report` and `kveval show`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import Kveval, refused
from support.divergences import add_divergence
from support.make_run import GOOD, make_run
from support.scripted import ScriptedEngines

from kveval.run.directory import RunDirectory


def test_a_report_is_built_again(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines, tmp_path: Path
) -> None:
    kveval("sweep", config())
    Path("runs/nightly/report.html").unlink()
    code, out, _ = kveval("report", "runs/nightly")
    assert code == 0
    assert out == "report: runs/nightly/report.html\n"
    code, out, _ = kveval("report", "runs/nightly", "--out", str(tmp_path / "other.html"), "--json")
    assert code == 0
    assert isinstance(json.loads(out), dict)
    assert (tmp_path / "other.html").is_file()


def test_a_report_of_no_run(kveval: Kveval, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(kveval("report", "nowhere"), "nowhere: not a run directory (it has no manifest.json)")


@pytest.mark.parametrize(
    "text",
    ["[]", "{", '{"texts": [{}]}', "\0", "[" * 100_000, '{"texts": [], "a": NaN}', '"\\ud800"', '{"texts": null}'],
)
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_broken_list_of_texts_is_one_line_that_names_it(
    kveval: Kveval, tmp_path: Path, text: str, flags: tuple[str, ...]
) -> None:
    run = make_run(tmp_path / "run", answers=GOOD)
    add_divergence(run, {"same": 0.2}, texts=1)
    (run / "divergence" / "texts.json").write_text(text)
    refused(kveval("report", run, *flags), "divergence/texts.json: ")


def test_a_list_of_texts_that_cannot_be_opened_is_one_line(kveval: Kveval, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", answers=GOOD)
    (run / "divergence" / "texts.json").mkdir(parents=True)
    refused(kveval("report", run), "divergence/texts.json: cannot be read: Is a directory")


def test_the_prompt_of_a_sample_is_printed_as_it_was_asked(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines
) -> None:
    kveval("sweep", config())
    row = next(RunDirectory(Path("runs/nightly")).samples())
    code, out, err = kveval("show", "runs/nightly", row.sample_id, "--json")
    assert code == 0, err
    shown = json.loads(out)
    assert shown["prompt_sha256"] == row.prompt_sha256
    assert {name: answer["outcome"] for name, answer in shown["answers"].items()} == {
        "bf16": "correct",
        "fp8": "correct",
    }
    assert kveval("show", "runs/nightly", row.sample_id[:12], "--prompt") == (0, shown["prompt"], "")
    code, out, _ = kveval("show", "runs/nightly", row.sample_id[:12])
    assert code == 0
    assert out.startswith(shown["prompt"])
    for name, answer in shown["answers"].items():
        assert f"{name}: correct, score 1.000" in out
        assert answer["output"] in out.removeprefix(shown["prompt"])


def test_a_sample_that_is_not_in_the_run(kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines) -> None:
    kveval("sweep", config())
    code, _, err = kveval("show", "runs/nightly", "nothing")
    assert code == 2
    assert "'nothing': no sample of this run begins with it" in err
    assert "4 sample ids begin with it" in kveval("show", "runs/nightly", "")[2]
