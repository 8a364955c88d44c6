from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.scripted import Oracle, Reply, ScriptedEngines, always
from typer.main import get_command

import kveval
from kveval.cli import app as cli
from kveval.cli import commands
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.installation import Installation, find_installation
from kveval.measure.plan.plan import Plan
from kveval.measure.sweep import sweep
from kveval.run.directory import RunDirectory

Kveval = Callable[..., tuple[int, str, str]]


class Engines(ScriptedEngines):
    """Oracles for whatever plan the command line makes."""

    def __init__(self) -> None:
        super().__init__(always(Reply()))

    def __call__(self, plan: Plan, variant: ResolvedVariant, log_path: Path) -> Any:
        self.handler = Oracle(plan)
        return super().__call__(plan, variant, log_path)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngines:
    made = Engines()
    monkeypatch.setattr(commands, "sweep", partial(sweep, engine_factory=made))
    return made


@pytest.fixture
def config(
    stand_in: None, checkpoint: Path, installation: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., str]:
    """Writes a configuration and gives its path; keyword arguments replace keys. The working directory is empty."""
    monkeypatch.setattr(commands, "find_installation", lambda _: installation)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def write(**changes: Any) -> str:
        given = {
            "model": str(checkpoint), "variants": ["bf16", "fp8"], "context_lengths": [512], "tasks": ["niah_single"],
            "samples": 4, "questions_per_haystack": 2, "haystack": "generated", "aa_share": 0.0,
            "cold_check": 0,
        }  # fmt: skip
        path = tmp_path / "nightly.yaml"
        path.write_text(yaml.safe_dump(given | changes))
        return str(path)

    return write


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Kveval:
    """`kveval ARGUMENTS` in this process: exit code, standard output, standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kveval", *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def refused(result: tuple[int, str, str], *words: str) -> None:
    """Exit code 2, nothing on standard output, one line that names what it must, no run directory."""
    code, out, err = result
    assert code == 2, err
    assert out == ""
    lines = [line for line in err.splitlines() if not line.startswith("planning: ")]
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0]
    assert not Path("runs").exists()


def all_commands() -> Iterator[list[str]]:
    def below(command: Any, path: list[str]) -> Iterator[list[str]]:
        yield path
        for name, child in getattr(command, "commands", {}).items():
            yield from below(child, [*path, name])

    yield from below(get_command(cli.app), [])


def test_a_sweep_from_configuration_to_report(run: Kveval, config: Callable[..., str], engines: Engines) -> None:
    code, out, err = run("sweep", config())
    assert code == 0, err
    assert "report: runs/nightly/report.html" in out
    assert Path("runs/nightly/report.html").is_file()
    assert RunDirectory(Path("runs/nightly")).read_manifest().status == "complete"
    assert engines.launches == ["bf16", "fp8"]


def test_without_a_terminal_the_output_is_plain(run: Kveval, config: Callable[..., str], engines: Engines) -> None:
    _, out, err = run("sweep", config())
    assert all(character.isprintable() or character == "\n" for character in out + err)
    assert "bf16: 4 of 4 samples to ask" in err.splitlines()
    assert len(err.splitlines()) < 40


def test_a_sweep_as_json(run: Kveval, config: Callable[..., str], engines: Engines) -> None:
    code, out, _ = run("sweep", config(), "--json")
    assert code == 0
    assert isinstance(json.loads(out), dict)


def test_flags_replace_keys_of_the_file(
    run: Kveval, config: Callable[..., str], checkpoint: Path, tmp_path: Path
) -> None:
    flags = ["--model", str(checkpoint), "--variants", "bf16, int8", "--lengths", "1k,768,", "--tasks", "niah_multikey"]
    flags += ["--samples", "2", "--seed", "5", "--out", str(tmp_path / "elsewhere")]
    code, out, err = run("sweep", config(model="none"), *flags, "--dry-run", "--json")
    assert code == 0, err
    plan = json.loads(out)
    assert [variant["name"] for variant in plan["variants"]] == ["bf16", "int8"]
    assert [(cell["task"], cell["context_length"], cell["samples"]) for cell in plan["cells"]] == [
        ("niah_multikey", 1024, 2),
        ("niah_multikey", 768, 2),
    ]
    assert not (tmp_path / "elsewhere").exists()


def test_a_dry_run_starts_nothing(run: Kveval, config: Callable[..., str], engines: Engines) -> None:
    code, out, _ = run("sweep", config(), "--dry-run")
    assert code == 0
    for word in ("bf16", "fp8", "niah_single", "prefill tokens with sharing", "engine launches", "estimate"):
        assert word in out
    assert engines.launches == []
    assert not Path("runs").exists()


def test_resume(run: Kveval, config: Callable[..., str], engines: Engines) -> None:
    run("sweep", config())
    path = Path("runs/nightly/records/fp8.jsonl")
    path.write_text(path.read_text()[:-30])
    before = engines.requests()
    code, _, err = run("sweep", config(), "--resume")
    assert code == 0, err
    assert engines.requests() == before + 1


def test_an_incomplete_run_shows_what_it_has_and_exits_3(
    run: Kveval, config: Callable[..., str], engines: Engines
) -> None:
    engines.fail_to_start["fp8"] = (1, "fp8: the engine stopped (exit code 1)")
    code, out, err = run("sweep", config())
    assert code == 3
    assert "report: runs/nightly/report.html" in out
    assert err.splitlines()[-1] == (
        "error: the run is incomplete: fp8 failed: fp8: the engine stopped (exit code 1)"
    )  # fmt: skip


def test_a_failed_baseline_shows_the_end_of_its_log(run: Kveval, config: Callable[..., str], engines: Engines) -> None:
    engines.fail_to_start["bf16"] = (1, "bf16: the engine stopped (exit code 1)")
    code, _, err = run("sweep", config())
    assert code == 3
    assert err.splitlines()[-2:] == ["last line of the log", "error: bf16: the engine stopped (exit code 1)"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("smaples: 3", ["nightly.yaml", "unknown key 'smaples'", "did you mean 'samples'"]),
        ("engine: {pythn: x}", ["unknown key 'engine.pythn'", "did you mean 'python'"]),
        ("variants: [{name: x, kv_cache_dtype: fp8, dtype: y}]", ["unknown key 'variants.0.dtype'", "kv_cache_dtype"]),
        ("variants: [bf16, fp9]", ["'fp9' is not a variant", "did you mean 'fp8'"]),
        ("variants: [{name: x, kv_cache_dtype: fp9}]", ["'fp9' is not a vLLM cache dtype", "did you mean"]),
        ("variants: [fp8]", ["baseline", "'bf16' is not among the variants"]),
        ("variants: [fp8]\nbaseline: fp8", ["baseline", "'fp8' is itself quantized", "allowed"]),
        ("variants: [bf16, bf16]", ["variants: bf16 is listed twice", "allowed"]),
        ("variants: bf16", ["variants: 'bf16' is not allowed", "list"]),
        ("variants: []", ["variants: [] is not allowed"]),
        ("tasks: [niah_singel]", ["unknown task 'niah_singel'", "did you mean 'niah_single'"]),
        ("context_lengths: [4kk]", ["context_lengths.0", "'4kk' is not a context length", "allowed"]),
        ("context_lengths: [64k]", ["context_lengths: 65536", "window of 8192", "allowed: up to"]),
        ("samples: 0", ["samples: 0 is not allowed", "use: a number above 0"]),
        ("samples: many", ["samples: 'many' is not allowed"]),
        ("aa_share: .nan", ["aa_share: nan is not allowed"]),
        ("haystack: novels", ["haystack: 'novels' is not allowed", "'essays', 'wikipedia' or 'generated'"]),
        ("model: nowhere", ["model: ", "nowhere is no folder", "or a folder with a Hugging Face checkpoint"]),
        ("requests: {logprobs: 50}", ["requests.logprobs: 50 is not allowed", "20"]),
        ("engine: {args: {port: 1}}", ["engine.args: 'port' is set by kveval", "allowed: engine.port"]),
        ("model: [", ["nightly.yaml (line ", "not YAML"]),
        ("- a\n- b", ["not a mapping of keys to values but list", "allowed keys: model"]),
        ("", ["not a mapping of keys to values but NoneType"]),
        ("{}", ["model: required, not given"]),
    ],
)
def test_bad_configurations(
    run: Kveval, config: Callable[..., str], engines: Engines, text: str, words: list[str]
) -> None:
    path = Path(config())
    given = yaml.safe_load(path.read_text())
    try:
        changes = yaml.safe_load(text)
    except yaml.YAMLError:
        changes = None
    path.write_text(yaml.safe_dump(given | changes) if isinstance(changes, dict) and changes else text)
    refused(run("sweep", str(path)), *words)
    assert engines.launches == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--lengths", "4kk"], ["--lengths", "'4kk' is not a context length", "allowed: tokens such as 4096"]),
        (["--lengths", "64k"], ["context_lengths: 65536", "window of 8192"]),
        (["--lengths", "64"], ["niah_single", "context_length 64", "the minimum is"]),
        (["--variants", "bf16,fp9"], ["'fp9' is not a variant", "did you mean 'fp8'"]),
        (["--variants", ""], ["variants: [] is not allowed"]),
        (["--variants", "bf16,int4_per_token_head"], ["variants.int4_per_token_head", "corrupts its cache", "allowed"]),
        (["--tasks", "niah_singel"], ["unknown task 'niah_singel'", "did you mean 'niah_single'"]),
        (["--samples", "0"], ["samples: '0' is not allowed"]),
        (["--seed", "-1"], ["seed: '-1' is not allowed"]),
        (["--model", "nowhere"], ["model: nowhere is no folder"]),
        (["--model", "smolm2"], ["did you mean 'smollm2'"]),
        (["--retry-errors"], ["--retry-errors", "allowed: together with --resume"]),
    ],
)
def test_bad_flags(
    run: Kveval, config: Callable[..., str], engines: Engines, flags: list[str], words: list[str]
) -> None:
    refused(run("sweep", config(), *flags), *words)
    assert engines.launches == []


def test_no_such_file_or_preset(run: Kveval, config: Callable[..., str]) -> None:
    refused(run("sweep", "dmo"), "dmo: neither a file nor a preset", "did you mean 'demo'")
    refused(run("sweep", "."), ".: neither a file nor a preset")


def test_a_flag_of_another_kind_is_refused(run: Kveval, config: Callable[..., str]) -> None:
    code, out, err = run("sweep", config(), "--samples", "many")
    assert (code, out) == (2, "")
    assert "samples: 'many' is not allowed; use: a whole number" in err


def test_no_engine(run: Kveval, config: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "find_installation", find_installation)
    refused(run("sweep", config(engine={"python": "/none/python"})), "engine.python", "/none/python", "cannot be run")
    refused(run("sweep", config(engine={"command": ["/none/vllm"]})), "engine.command", "/none/vllm", "allowed")


def test_a_taken_port(run: Kveval, config: Callable[..., str], engines: Engines) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        refused(run("sweep", config(engine={"port": port})), f"engine.port: {port} is taken", "allowed: a free port")


def test_an_out_that_is_taken(run: Kveval, config: Callable[..., str], engines: Engines, tmp_path: Path) -> None:
    assert run("sweep", config(), "--out", str(tmp_path / "run"))[0] == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    result = run("sweep", config(seed=3), "--out", str(tmp_path / "run"))
    refused(result, f"--out {tmp_path}/run: holds a run already", "allowed: an empty or new folder, or --resume")
    result = run("sweep", config(seed=3), "--out", str(tmp_path / "run"), "--resume")
    refused(result, "--resume: seed was 0 in this run and is 3 now", "allowed")
    after = {path: path.read_bytes() for path in before}
    assert {path.name for path in before if before[path] != after[path]} <= {"lock"}

    refused(run("sweep", config(), "--out", config()), "nightly.yaml: is a file", "allowed: an empty or new folder")


def test_a_full_disk(
    run: Kveval, config: Callable[..., str], engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Any, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("kveval.run.directory._write_all", full)
        code, out, err = run("sweep", config())
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("error: runs/nightly/records/bf16.jsonl: the disk is full; free some space")
    assert run("sweep", config(), "--resume")[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_the_answers_and_says_how_to_go_on(
    run: Kveval, config: Callable[..., str], engines: Engines, number: signal.Signals
) -> None:
    def kill() -> None:
        records = Path("runs/nightly/records/bf16.jsonl")
        while not (records.exists() and records.stat().st_size):
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    count = iter(range(1 << 30))
    quick = ScriptedEngines.__call__

    def slow(self: ScriptedEngines, plan: Plan, variant: ResolvedVariant, log_path: Path) -> Any:
        engine = quick(self, plan, variant, log_path)
        oracle = engine.server.handler

        def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
            reply = oracle(prompt, body)
            reply.hang = "cache_salt" not in body and next(count) > 0
            return reply

        engine.server.handler = handler
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptedEngines, "__call__", slow)
        killer = threading.Thread(target=kill)
        killer.start()
        code, out, err = run("sweep", config(requests={"max_in_flight": 1}))
        killer.join()
    assert (code, out) == (128 + number, "")
    assert err.splitlines()[-1] == (
        "error: interrupted; no process is left running and every answer so far is kept: "
        "--resume --out runs/nightly goes on"
    )
    assert not any(server.is_up for server in engines.servers.values())
    assert len(list(RunDirectory(Path("runs/nightly")).records("bf16"))) == 1
    assert RunDirectory(Path("runs/nightly")).read_manifest().status == "incomplete"


def test_a_report_is_built_again(run: Kveval, config: Callable[..., str], engines: Engines, tmp_path: Path) -> None:
    run("sweep", config())
    Path("runs/nightly/report.html").unlink()
    code, out, _ = run("report", "runs/nightly")
    assert code == 0
    assert out == "report: runs/nightly/report.html\n"
    code, out, _ = run("report", "runs/nightly", "--out", str(tmp_path / "other.html"), "--json")
    assert code == 0
    assert isinstance(json.loads(out), dict)
    assert (tmp_path / "other.html").is_file()


def test_a_report_of_no_run(run: Kveval, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(run("report", "nowhere"), "nowhere: not a run directory (it has no manifest.json)")


def test_tasks_are_listed(run: Kveval) -> None:
    code, out, _ = run("tasks", "--json")
    rows = json.loads(out)
    assert code == 0
    assert {"niah_single", "niah_multikey", "niah_absent"} <= {row["name"] for row in rows}
    assert all(row.keys() == {"name", "family", "version", "description", "path"} for row in rows)
    assert all(Path(row["path"]).stem == row["name"] for row in rows)
    code, out, _ = run("tasks")
    assert code == 0
    assert all(row["name"] in out for row in rows)


def test_a_prompt_is_shown_with_its_answer(run: Kveval) -> None:
    code, out, _ = run("tasks", "show", "niah_single", "--length", "512", "--haystack", "generated", "--json")
    shown = json.loads(out)
    assert code == 0
    assert 504 <= shown["prompt_tokens"] <= 512
    assert shown["answer"][0] in shown["prompt"]
    code, out, _ = run("tasks", "show", "niah_single", "--length", "512", "--haystack", "generated")
    assert code == 0
    assert out.startswith(shown["prompt"])
    assert f"sample_id: {shown['sample_id']}" in out
    assert shown["form"] == "text"
    _, out, _ = run("tasks", "show", "fact_update", "--length", "1k", "--haystack", "generated", "--json")
    assert "a sweep takes the chat endpoint where template and engine allow" in json.loads(out)["form"]


def test_tasks_of_a_folder_of_ones_own(
    run: Kveval, own_tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, out, _ = run("tasks", "--include-path", str(own_tasks), "--json")
    assert {"niah_single", "mine"} <= {row["name"] for row in json.loads(out)}
    _, out, _ = run(
        *("tasks", "show", "mine", "--include-path", str(own_tasks)),
        *("--length", "512", "--haystack", "generated", "--json"),
    )
    assert json.loads(out)["task"] == "mine"
    refused(run("tasks", "show", "mine"), "unknown task 'mine'")
    refused(run("tasks", "--include-path", "nowhere"), f"task folder {tmp_path / 'nowhere'} does not exist")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["niah_singel"], ["unknown task 'niah_singel'", "did you mean 'niah_single'"]),
        (["niah_single", "--length", "4kk"], ["--length: '4kk' is not a context length", "allowed"]),
        (["niah_single", "--haystack", "novels"], ["--haystack: 'novels' is not a haystack style", "use: essays"]),
        (["niah_single", "--model", "nowhere"], ["--model: nowhere is no folder"]),
        (["niah_single", "--length", "32", "--haystack", "generated"], ["context_length 32", "the minimum is"]),
    ],
)
def test_bad_questions_about_tasks(
    run: Kveval, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(run("tasks", "show", *arguments), *words)


@pytest.mark.parametrize("path", list(all_commands()), ids=" ".join)
def test_help_has_every_command_and_an_example(run: Kveval, path: list[str]) -> None:
    code, out, _ = run(*path, "--help")
    assert code == 0
    command = get_command(cli.app)
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]
    children = getattr(command, "commands", {})
    for name in children:
        assert name in out
    if not path:
        assert set(children) >= {"sweep", "report", "tasks"}
    else:
        assert "Example" in out
        assert f"kveval {' '.join(path)}" in out.split("Example")[-1]


def test_the_version(run: Kveval) -> None:
    assert run("--version") == (0, kveval.__version__ + "\n", "")


def test_no_arguments_show_the_help(run: Kveval) -> None:
    _, out, err = run()
    assert "Usage" in out + err


def test_the_installed_command() -> None:
    """In a process of its own: the entry point, the exit code and a standard error without control characters."""
    script = Path(sys.executable).with_name("kveval")
    command = [str(script)] if script.exists() else [sys.executable, "-c", "from kveval.cli.app import main; main()"]
    result = subprocess.run([*command, "sweep", "dmo"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: dmo: neither a file nor a preset; did you mean 'demo'")
    assert len(result.stderr.splitlines()) == 1


def test_a_misspelt_command_is_one_line(run: Kveval) -> None:
    code, out, err = run("swep")
    assert (code, out) == (2, "")
    assert err == "error: No such command 'swep'. Did you mean 'sweep'?; see --help\n"


def test_flags_hold_for_tasks_with_values_of_their_own(tmp_path: Path) -> None:
    from kveval.config.sweep import load_config

    path = tmp_path / "own.yaml"
    path.write_text(
        "model: /m\nvariants: [bf16]\ncontext_lengths: [1k]\n"
        "tasks: [{name: niah_single, samples: 10, context_lengths: [2k], questions_per_haystack: 5}]\n"
    )
    task = load_config(str(path), {"samples": "4", "context_lengths": [512]}).tasks[0]
    assert (task.samples, task.context_lengths, task.questions_per_haystack) == (None, None, 5)
    assert load_config(str(path)).tasks[0].samples == 10
