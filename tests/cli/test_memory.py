"""`kveval memory` from its flags to its table, its JSON and its refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import DATA
from support.commands import Kveval
from support.model_folder import write_safetensors

LLAMA = DATA / "configs" / "llama-3.1-8b.json"
Memory = Callable[..., tuple[int, str, str]]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Llama-3.1-8B's config.json beside weights of 16 GiB, as a sparse file."""
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text(LLAMA.read_text())
    write_safetensors(folder / "model.safetensors", ["a"])
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(16 << 30)
    return folder


@pytest.fixture
def memory(kveval: Kveval) -> Memory:
    return lambda *arguments: kveval("memory", *arguments)


def test_json(memory: Memory, model: Path) -> None:
    code, out, err = memory(
        model, "--memory", "80GiB", "--formats", "bf16,fp8,int8", "--lengths", "32k,128k", "--json"
    )  # fmt: skip
    assert code == 0, err
    document = json.loads(out)
    assert document["model"] == str(model)
    assert document["budget"]["cache_bytes"] == (72 - 16) << 30
    bf16, fp8, int8 = document["formats"]
    # 128 KiB a token: 4 GiB at 32k, 16 GiB at 128k, of 56 GiB.
    assert [length["sequence_bytes"] for length in bf16["lengths"]] == [4 << 30, 16 << 30]
    assert [length["sequences"] for length in bf16["lengths"]] == [14, 3]
    assert [length["sequences"] for length in fp8["lengths"]] == [28, 7]
    assert [length["server_concurrency"] for length in bf16["lengths"]] == [14, 3.5]
    assert bf16["capacity_tokens"] == 56 * 8192
    assert bf16["longest_context_tokens"] == 131072
    # 132/128 of fp8's bytes.
    assert [length["sequences"] for length in int8["lengths"]] == [27, 6]


def test_a_table_that_any_terminal_shows_whole(memory: Memory, model: Path) -> None:
    code, out, err = memory(model, "--memory", "80GiB", "--formats", "bf16,int4_per_token_head", "--lengths", "128k")
    assert code == 0, err
    assert "…" not in out
    for word in (
        "56.00 GiB = 80.00 GiB x 0.9 - 16.00 GiB of weights",
        "131,072",
        "34,816",
        "16.00 GiB",
        "int4_per_token_head",
    ):
        assert word in " ".join(out.split())


def test_what_does_not_fit_is_said_in_words(memory: Memory, model: Path) -> None:
    # A block of 16 tokens takes 2 MiB in bfloat16 and 1 MiB in fp8.
    code, out, err = memory(model, "--cache", "1MiB", "--formats", "bf16,fp8", "--lengths", "4k")
    assert code == 0, err
    assert "Nothing fits in bfloat16: the server would not start" in " ".join(out.split())
    assert "memory for the cache  1.00 MiB" in out
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]
    assert cells == [
        ["bfloat16", "131,072", "16", "0", "none"],
        ["fp8", "65,536", "16", "16", "16"],
        ["4,096", "bfloat16", "512.00 MiB", "none", "0.00"],
        ["4,096", "fp8", "256.00 MiB", "none", "0.00"],
    ]
    assert "Nothing fits" not in memory(model, "--cache", "1GiB", "--formats", "fp8")[1]


def test_two_names_of_one_format_are_one_row(memory: Memory, model: Path) -> None:
    document = json.loads(memory(model, "--formats", "bf16,bfloat16,fp8", "--json")[1])
    assert [row["format"] for row in document["formats"]] == ["bfloat16", "fp8"]


def test_sizes_need_no_memory_and_no_weights(memory: Memory, model: Path) -> None:
    (model / "model.safetensors").unlink()
    code, out, err = memory(model / "config.json", "--json")
    assert code == 0, err
    document = json.loads(out)
    assert document["budget"] is None
    assert [length["context_length"] for length in document["formats"][0]["lengths"]] == [4096, 32768, 131072]
    assert document["formats"][0]["lengths"][0]["sequences"] is None
    assert memory(model)[0] == 0


def test_ranks_and_blocks(memory: Memory, model: Path) -> None:
    flags = ["--memory", "80GiB", "--tensor-parallel", "4", "--block-size", "64", "--formats", "bf16", "--json"]
    document = json.loads(memory(model, *flags)[1])
    assert document["budget"]["weight_bytes"] == 4 << 30
    assert document["formats"][0]["bytes_per_token"] == 32 * 1024
    assert document["formats"][0]["block_tokens"] == 64


def test_a_cpu_engine(memory: Memory, model: Path) -> None:
    document = json.loads(memory(model, "--device", "cpu", "--cache", "2GiB", "--formats", "fp8", "--json")[1])
    row = document["formats"][0]
    assert (row["block_tokens"], row["blocks"]) == (128, 256)
    assert row["capacity_tokens"] == row["longest_context_tokens"] == 32768


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--memory", "8GiB"], ["--memory: 8.00 GiB x 0.9 = 7.20 GiB", "weights take 16.00 GiB", "use more than"]),
        (["--memory", "80"], ["--memory: '80' is not a size", "use 80GiB"]),
        (["--memory", "80GiB", "--cache", "1GiB"], ["--cache", "use one of the two"]),
        (["--memory", "80GiB", "--utilization", "0"], ["--utilization: 0.0", "use a number above 0"]),
        (["--memory", "80GiB", "--weights", "16"], ["--weights: '16' is not a size"]),
        (["--cache", "1GiB", "--weights", "16GiB"], ["--weights: has a meaning only with --memory"]),
        (["--cache", "1GiB", "--utilization", "0.8"], ["--utilization: has a meaning only with --memory", "use both"]),
        (["--weights", "16GiB"], ["--weights: has a meaning only with --memory"]),
        (["--formats", "int4"], ["--formats: 'int4' cannot be sized: kveval only emulates it", "; use: bf"]),
        (["--formats", "int9"], ["--formats: 'int9'", "did you mean 'int8'"]),
        (["--formats", "nvfp4_ds_mla"], ["--formats: nvfp4_ds_mla: is made for latent"]),
        (["--lengths", "4kk"], ["--lengths: '4kk' is not a context length"]),
        (["--lengths", "256k"], ["--lengths: 262144 is beyond the model's window", "up to 131072"]),
        (["--block-size", "0"], ["--block-size: 0 is too small"]),
        (["--tensor-parallel", "3"], ["--tensor-parallel: 3 ranks do not divide"]),
        (["--device", "tpu"], ["--device: 'tpu' is not a device; use: gpu, cpu"]),
    ],
)
def test_refusals(memory: Memory, model: Path, flags: list[str], words: list[str]) -> None:
    code, out, err = memory(model, *flags)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("error: ")
    for word in words:
        assert word in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", ["config.json: num_hidden_layers (or n_layer", "required to size the cache, not given"]),
        ("[]", ["config.json is not a JSON object"]),
        ("{", ["config.json is not readable as JSON"]),
        ('{"num_hidden_layers": "many"}', ["num_hidden_layers: 'many' cannot be used"]),
    ],
)
def test_configs_that_do_not_say(memory: Memory, model: Path, text: str, words: list[str]) -> None:
    (model / "config.json").write_text(text)
    code, out, err = memory(model)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    for word in words:
        assert word in err


def test_weights_that_are_git_lfs_pointers_are_sized_and_said(memory: Memory, model: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:46\nsize 4976698672\n"
    (model / "model.safetensors").unlink()
    for number in (1, 2):
        (model / f"model-0000{number}-of-00002.safetensors").write_text(pointer)
    code, out, err = memory(model, "--memory", "80GiB", "--formats", "bf16", "--lengths", "32k")
    assert code == 0, err
    said = " ".join(out.split())
    assert "- 9.27 GiB of weights" in said
    assert "The weights are not there: 2 of their files are Git LFS pointers" in said


def test_weights_that_are_cut_off_are_refused(memory: Memory, model: Path) -> None:
    (model / "model.safetensors").write_bytes(b"weights")
    code, out, err = memory(model, "--memory", "80GiB")
    assert (code, out) == (2, "")
    assert "model.safetensors is not a safetensors file" in err
    assert memory(model, "--memory", "80GiB", "--weights", "16GiB")[0] == 0


def test_weights_of_another_model_are_refused(memory: Memory, model: Path) -> None:
    name = "model.layers.0.self_attn.k_proj.weight"
    write_safetensors(model / "model.safetensors", [name], {name: [512, 4096]})
    code, out, err = memory(model)
    assert (code, out) == (2, "")
    assert "KV heads x head_dim is 1024 in layer 0, but self_attn.k_proj.weight has 512 rows" in err


def test_names_in_a_config_cannot_steer_the_terminal_or_the_table(memory: Memory, model: Path) -> None:
    config = json.loads(LLAMA.read_text()) | {"model_type": "\x1b[31mred[/nope]", "architectures": ["\x1b]0;x\x07"]}
    (model / "config.json").write_text(json.dumps(config))
    code, out, err = memory(model, "--formats", "bf16")
    assert code == 0, err
    assert "red[/nope]" in out
    assert "\x1b" not in out


def test_no_such_model(memory: Memory) -> None:
    code, out, err = memory("nowhere")
    assert (code, out) == (2, "")
    assert "MODEL: nowhere is not a folder; use: " in err


def test_no_heavy_library_is_loaded(model: Path) -> None:
    code = (
        f"import sys\nsys.argv = ['kveval', 'memory', {str(model)!r}, '--memory', '80GiB', '--json']\n"
        "from kveval.cli import app as cli\n"
        "try:\n    cli.main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print([name for name in ('torch', 'vllm', 'lm_eval', 'transformers', 'datasets') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
