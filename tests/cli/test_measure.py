"""`kveval sweep`."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.commands import Kveval, refused
from support.scripted import Reply, ScriptedEngines

from kveval.api import source
from kveval.engines.registry import find_installation
from kveval.engines.variants import ResolvedVariant
from kveval.measure.plan.plan import Plan
from kveval.run.directory import RunDirectory


def test_a_sweep_from_configuration_to_report(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines
) -> None:
    code, out, err = kveval("sweep", config())
    assert code == 0, err
    assert "report: runs/nightly/report.html" in out
    assert Path("runs/nightly/report.html").is_file()
    assert RunDirectory(Path("runs/nightly")).read_manifest().status == "complete"
    assert engines.launches == ["bf16", "fp8"]


def test_without_a_terminal_the_output_is_plain(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines
) -> None:
    _, out, err = kveval("sweep", config())
    assert all(character.isprintable() or character == "\n" for character in out + err)
    assert "bf16: 4 of 4 samples to ask" in err.splitlines()
    assert len(err.splitlines()) < 40


def test_a_sweep_as_json(kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines) -> None:
    code, out, _ = kveval("sweep", config(), "--json")
    assert code == 0
    assert isinstance(json.loads(out), dict)


def test_flags_replace_keys_of_the_file(
    kveval: Kveval, config: Callable[..., str], checkpoint: Path, tmp_path: Path
) -> None:
    flags = ["--model", str(checkpoint), "--variants", "bf16, int8", "--lengths", "1k,768,", "--tasks", "niah_multikey"]
    flags += ["--samples", "2", "--seed", "5", "--out", str(tmp_path / "elsewhere")]
    code, out, err = kveval("sweep", config(model="none"), *flags, "--dry-run", "--json")
    assert code == 0, err
    plan = json.loads(out)
    assert [variant["name"] for variant in plan["variants"]] == ["bf16", "int8"]
    assert [(cell["task"], cell["context_length"], cell["samples"]) for cell in plan["cells"]] == [
        ("niah_multikey", 1024, 2),
        ("niah_multikey", 768, 2),
    ]
    assert not (tmp_path / "elsewhere").exists()


def test_a_dry_run_starts_nothing(kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines) -> None:
    code, out, _ = kveval("sweep", config(), "--dry-run")
    assert code == 0
    for word in ("bf16", "fp8", "niah_single", "prefill tokens with sharing", "engine launches", "estimate"):
        assert word in out
    assert engines.launches == []
    assert not Path("runs").exists()


def test_resume(kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines) -> None:
    kveval("sweep", config())
    path = Path("runs/nightly/records/fp8.jsonl")
    path.write_text(path.read_text()[:-30])
    before = engines.requests()
    code, _, err = kveval("sweep", config(), "--resume")
    assert code == 0, err
    # The missing answer, and one question from the start that ends the last block.
    assert engines.requests() == before + 2


def test_an_incomplete_run_shows_what_it_has_and_exits_3(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines
) -> None:
    engines.fail_to_start["fp8"] = (1, "fp8: the engine stopped (exit code 1)")
    code, out, err = kveval("sweep", config())
    assert code == 3
    assert "report: runs/nightly/report.html" in out
    assert err.splitlines()[-1] == (
        "error: the run is incomplete: fp8 failed: fp8: the engine stopped (exit code 1)"
    )  # fmt: skip


def test_a_failed_baseline_shows_the_end_of_its_log(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines
) -> None:
    engines.fail_to_start["bf16"] = (1, "bf16: the engine stopped (exit code 1)")
    code, _, err = kveval("sweep", config())
    assert code == 3
    assert err.splitlines()[-2:] == ["last line of the log", "error: bf16: the engine stopped (exit code 1)"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("smaples: 3", ["nightly.yaml", "unknown key 'smaples'", "did you mean 'samples'"]),
        ("engine: {pythn: x}", ["unknown key 'engine.pythn'", "did you mean 'python'"]),
        ("variants: [{name: x, kv_cache_dtype: fp8, dtype: y}]", ["unknown key 'variants.0.dtype'", "kv_cache_dtype"]),
        ("variants: [bf16, fp9]", ["'fp9' is not a variant", "did you mean 'fp8'"]),
        ("variants: [bf16, {name: x, kv_cache_dtype: fp9}]", ["variants.x: kv_cache_dtype: ", "'fp9'", "use on CPU"]),
        ("variants: [fp8]", ["baseline", "'bf16' is not among the variants"]),
        ("variants: [fp8]\nbaseline: fp8", ["baseline", "'fp8' is itself quantized", "use a variant"]),
        ("variants: [bf16, bf16]", ["variants: bf16 is listed twice", "list every one once"]),
        ("variants: bf16", ["variants: 'bf16' is not allowed", "list"]),
        ("variants: []", ["variants: [] is not allowed"]),
        ("tasks: [niah_singel]", ["unknown task 'niah_singel'", "did you mean 'niah_single'"]),
        ("context_lengths: [4kk]", ["context_lengths.0", "'4kk' is not a context length", "use tokens"]),
        ("context_lengths: [64k]", ["niah_single: 65536 prompt tokens", "model (8192 tokens)", "use: up to"]),
        ("samples: 0", ["samples: 0 is not allowed", "use: a number above 0"]),
        ("samples: many", ["samples: 'many' is not allowed"]),
        ("aa_share: .nan", ["aa_share: nan is not allowed"]),
        ("haystack: novels", ["haystack: 'novels' is not allowed", "'essays', 'wikipedia' or 'generated'"]),
        ("model: nowhere", ["model: ", "nowhere is not a folder", "or a folder with a Hugging Face checkpoint"]),
        ("requests: {logprobs: 50}", ["requests.logprobs: 50 is not allowed", "20"]),
        ("engine: {args: {port: 1}}", ["engine.args: 'port' is set by kveval", "use engine.port"]),
        ("model: [", ["nightly.yaml (line ", "not YAML"]),
        ("- a\n- b", ["not a mapping of keys to values but list", "use the keys model"]),
        ("", ["not a mapping of keys to values but NoneType"]),
        ("{}", ["model: required, not given"]),
    ],
)
def test_bad_configurations(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines, text: str, words: list[str]
) -> None:
    path = Path(config())
    given = yaml.safe_load(path.read_text())
    try:
        changes = yaml.safe_load(text)
    except yaml.YAMLError:
        changes = None
    path.write_text(yaml.safe_dump(given | changes) if isinstance(changes, dict) and changes else text)
    refused(kveval("sweep", str(path)), *words)
    assert engines.launches == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--lengths", "4kk"], ["--lengths", "'4kk' is not a context length", "use tokens such as 4096"]),
        (["--lengths", "64k"], ["context_lengths of niah_single: 65536 prompt tokens"]),
        (["--lengths", "64"], ["niah_single", "context_length 64", "tokens or more"]),
        (["--variants", "bf16,fp9"], ["'fp9' is not a variant", "did you mean 'fp8'"]),
        (["--variants", ""], ["variants: [] is not allowed"]),
        (
            ["--variants", "bf16,int4_per_token_head"],
            ["variants.int4_per_token_head", "corrupts its cache", "use on CPU"],
        ),
        (["--tasks", "niah_singel"], ["unknown task 'niah_singel'", "did you mean 'niah_single'"]),
        (["--samples", "0"], ["samples: '0' is not allowed"]),
        (["--seed", "-1"], ["seed: '-1' is not allowed"]),
        (["--model", "nowhere"], ["model: nowhere is not a folder"]),
        (["--model", "smolm2"], ["did you mean 'smollm2'"]),
        (["--retry-errors"], ["--retry-errors", "use it together with --resume"]),
    ],
)
def test_bad_flags(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines, flags: list[str], words: list[str]
) -> None:
    refused(kveval("sweep", config(), *flags), *words)
    assert engines.launches == []


def test_an_unknown_file_or_preset_is_refused(kveval: Kveval, config: Callable[..., str]) -> None:
    refused(kveval("sweep", "dmo"), "dmo: neither a file nor a preset", "did you mean 'demo'")
    refused(kveval("sweep", "."), ".: neither a file nor a preset")


def test_a_flag_of_another_kind_is_refused(kveval: Kveval, config: Callable[..., str]) -> None:
    code, out, err = kveval("sweep", config(), "--samples", "many")
    assert (code, out) == (2, "")
    assert "samples: 'many' is not allowed; use: a whole number" in err


def test_no_engine(kveval: Kveval, config: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "find_installation", find_installation)
    refused(
        kveval("sweep", config(engine={"python": "/none/python"})), "engine.python", "/none/python", "cannot be run"
    )
    refused(kveval("sweep", config(engine={"command": ["/none/vllm"]})), "engine.command", "/none/vllm", "use: ")


def test_a_taken_port(kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        refused(kveval("sweep", config(engine={"port": port})), f"engine.port: {port} is taken", "use: a free port")


def test_a_folder_with_a_run_is_refused(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines, tmp_path: Path
) -> None:
    assert kveval("sweep", config(), "--out", tmp_path / "run")[0] == 0
    result = kveval("sweep", config(seed=3), "--out", tmp_path / "run")
    refused(result, f"--out {tmp_path}/run: holds a run already", "or --resume")


def test_a_run_cannot_go_on_with_another_configuration(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines, tmp_path: Path
) -> None:
    assert kveval("sweep", config(), "--out", tmp_path / "run")[0] == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    result = kveval("sweep", config(seed=3), "--out", tmp_path / "run", "--resume")
    refused(result, "--resume: seed was 0 in this run and is 3 now")
    # A dry run refuses what the sweep refuses.
    result = kveval("sweep", config(seed=3), "--out", tmp_path / "run", "--resume", "--dry-run")
    refused(result, "--resume: seed was 0 in this run and is 3 now")
    assert kveval("sweep", config(), "--out", tmp_path / "run", "--resume", "--dry-run")[0] == 0
    assert {path.name for path in before if before[path] != path.read_bytes()} <= {"lock"}


def test_a_run_goes_on_with_its_own_configuration(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert kveval("sweep", config(), "--out", run)[0] == 0
    engines.servers.clear()
    code, _, err = kveval("sweep", "--resume", "--out", run, "--samples", "8")
    assert code == 0, err
    assert RunDirectory(run).read_manifest().samples == 8
    refused(kveval("sweep"), "CONFIG: required, not given")
    refused(kveval("sweep", "--resume"), "CONFIG: required, not given")
    refused(kveval("sweep", "--resume", "--out", "none"), "none: not a run directory")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"engine": {"env": {"HF_TOKEN": "hf_abc"}}}, "engine.env"),
        ({"engine": {"args": {"trust-remote-code": True}}}, "engine.args.trust-remote-code"),
        ({"engine": {"args": {"worker_cls": "evil.Worker"}}}, "engine.args.worker_cls"),
    ],
)
def test_a_run_directory_alone_decides_neither_what_is_executed_nor_a_secret(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines, tmp_path: Path, changes: Any, key: str
) -> None:
    run = tmp_path / "run"
    assert kveval("sweep", config(**changes), "--out", run)[0] == 0
    launched = len(engines.launches)
    refused(kveval("sweep", "--resume", "--out", run), f"{key}: a run directory alone does not decide this")
    assert len(engines.launches) == launched


def test_harmless_flags_of_a_run_are_taken_from_it(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert kveval("sweep", config(engine={"args": {"max_num_seqs": 4}}), "--out", run)[0] == 0
    code, _, err = kveval("sweep", "--resume", "--out", run)
    assert code == 0, err


def test_a_file_is_no_run_directory(kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines) -> None:
    refused(kveval("sweep", config(), "--out", config()), "nightly.yaml: is a file", "an empty or new folder")


def test_a_full_disk(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Any, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("kveval.run.directory._write_all", full)
        code, out, err = kveval("sweep", config())
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("error: runs/nightly/records/bf16.jsonl: the disk is full; free some space")
    assert kveval("sweep", config(), "--resume")[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_the_answers_and_says_how_to_go_on(
    kveval: Kveval, config: Callable[..., str], engines: ScriptedEngines, number: signal.Signals
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
        code, out, err = kveval("sweep", config(requests={"max_in_flight": 1}))
        killer.join()
    assert (code, out) == (128 + number, "")
    assert err.splitlines()[-1] == (
        "error: interrupted; no process is left running and every answer so far is kept. "
        "To go on, use: kveval sweep --resume --out runs/nightly"
    )
    assert not any(server.is_up for server in engines.servers.values())
    assert len(list(RunDirectory(Path("runs/nightly")).records("bf16"))) == 1
    assert RunDirectory(Path("runs/nightly")).read_manifest().status == "incomplete"
