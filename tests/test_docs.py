"""Runs the examples of the documentation: Python code, docstrings of the front door, commands and configurations."""

from __future__ import annotations

import doctest
import inspect
import json
import re
import runpy
import shlex
import struct
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import DATA, ROOT
from support.commands import answer_loads, answer_sweeps, use_installation
from support.make_run import make_run, make_samples, scored
from support.scripted import Reply, ScriptedEngines, always
from typer.main import get_command

import kveval
from kveval.cli.app import app
from kveval.config.sweep import SweepConfig, validate_config
from kveval.engines.base import Installation

PAGES = [
    page
    for page in ("README.md", "tasks/README.md", "reports/README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
    if (ROOT / page).is_file()
]
FUNCTIONS = [name for name in kveval.__all__ if inspect.isfunction(getattr(kveval, name))]
SMALL: dict[str, Any] = {
    "model": "smollm2", "variants": ["bf16", "fp8"], "context_lengths": [512], "tasks": ["niah_single"],
    "samples": 4, "questions_per_haystack": 2, "haystack": "generated", "aa_share": 0.0, "cold_check": 0,
}  # fmt: skip


def blocks(language: str) -> Iterator[Any]:
    """Every fenced block of a language, with the place it stands at."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for found in re.finditer(rf"^ *```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
            line = text[: found.start()].count("\n") + 1
            yield pytest.param(textwrap.dedent(found[1]), id=f"{page}:{line}")


def fenced_commands() -> Iterator[Any]:
    for block in blocks("(?:sh|bash)"):
        for line in block.values[0].splitlines():
            if line.startswith("kveval "):
                yield pytest.param(line, id=f"{block.id} {line.split('#')[0].strip()}")


def inline_commands() -> Iterator[Any]:
    for page in PAGES:
        for line in sorted(set(re.findall(r"`(kveval \w[^`]*)`", (ROOT / page).read_text(encoding="utf-8")))):
            yield pytest.param(line, id=f"{page} {line}")


@pytest.fixture
def documented_world(
    stand_in: None, checkpoint: Path, installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The working directory the examples assume: nightly.yaml, runs, a model; engines are scripted."""
    monkeypatch.setattr("kveval.models.checkpoint.demo_model", lambda _: checkpoint)
    use_installation(monkeypatch, installation)
    answer_sweeps(monkeypatch)
    answer_loads(monkeypatch, ScriptedEngines(always(Reply("a b c d e", finish_reason="length"))))
    monkeypatch.chdir(tmp_path)
    Path("nightly.yaml").write_text(yaml.safe_dump(SMALL))
    samples = make_samples(haystacks=150, questions=1)
    for run in ("runs/tonight", "runs/monday"):
        Path(run).parent.mkdir(exist_ok=True)
        make_run(Path(run), samples=samples, answers={"bf16": scored(0.7), "fp8": scored(0.7)})
    model = Path("models/llama")
    model.mkdir(parents=True)
    (model / "config.json").write_text((DATA / "configs" / "llama-3.1-8b.json").read_text())
    header = json.dumps({"lm_head.weight": {"dtype": "BF16", "shape": [15 << 29], "data_offsets": [0, 15 << 30]}})
    with (model / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header.encode())
        file.truncate(file.tell() + (15 << 30))
    return tmp_path


@pytest.mark.parametrize("code", list(blocks("python")))
def test_python_code_runs(code: str, documented_world: Path) -> None:
    example = documented_world / "example.py"
    example.write_text(code)
    runpy.run_path(str(example), run_name="example")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_docstring_prints_what_it_says(name: str, documented_world: Path) -> None:
    said = inspect.getdoc(getattr(kveval, name)) or ""
    example = doctest.DocTestParser().get_doctest(said, {"kveval": kveval}, name, None, 0)
    assert example.examples
    if "runs/demo" in example.docstring:  # prompts can be built again for a real run only
        kveval.sweep("nightly.yaml", out="runs/demo", progress=False)
    printed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(example, out=printed.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(printed)


@pytest.mark.parametrize("line", list(fenced_commands()))
def test_a_command_parses(line: str) -> None:
    parse(shlex.split(line, comments=True)[1:])


@pytest.mark.parametrize("line", list(inline_commands()))
def test_a_command_in_the_text_exists_with_its_flags(line: str) -> None:
    command: Any = get_command(app)
    for word in shlex.split(line)[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    assert command.name != get_command(app).name
    flags = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)} | {"--help"}
    assert {word for word in shlex.split(line) if word.startswith("--")} <= flags


@pytest.mark.parametrize("text", list(blocks("yaml")))
def test_a_configuration_is_valid(text: str) -> None:
    keys = yaml.safe_load(text.replace("!function ", "")) if "!function" in text else yaml.safe_load(text)
    if not isinstance(keys, Mapping) or not keys.keys() <= SweepConfig.model_fields.keys():
        pytest.skip("no configuration of a sweep")
    validate_config({**SMALL, **keys})


def parse(arguments: list[str]) -> None:
    """Parses a command line as `kveval` does, down to the command's own flags, and runs nothing."""
    command: Any = get_command(app)
    context = command.make_context("kveval", list(arguments))
    while hasattr(command, "commands") and (rest := [*context._protected_args, *context.args]):
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def test_a_wrong_flag_in_an_example_is_found() -> None:
    with pytest.raises(Exception, match="No such option: --lenghts"):
        parse(["sweep", "demo", "--lenghts", "4k"])
    with pytest.raises(Exception, match="No such command 'swep'"):
        parse(["swep", "demo"])
