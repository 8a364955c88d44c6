from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kveval.errors import ConfigError
from kveval.models import checkpoint as module
from kveval.models.checkpoint import hash_model, read_model
from kveval.models.demo import DEMO_MODELS


def write(path: Path, config: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return path


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
# Each window is what vLLM 0.32 says (test_vllm_says_the_same).
WINDOWS: list[tuple[dict[str, Any], int]] = [
    ({"model_type": "llama", "max_position_embeddings": 8192}, 8192),
    ({"model_type": "llama", "max_position_embeddings": 4096, "rope_scaling": None}, 4096),
    ({"model_type": "llama", "max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 2.0}}, 8192),
    (
        {
            "model_type": "llama", "max_position_embeddings": 4096,
            "rope_scaling": {"rope_type": "dynamic", "factor": 4.0},
        },
        16384,
    ),
    (
        {
            "model_type": "llama", "max_position_embeddings": 131072,
            "rope_scaling": {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        },
        131072,
    ),
    # YaRN has no part in it, whatever the length it was made from.
    ({"model_type": "qwen2", "max_position_embeddings": 131072, "rope_parameters": YARN}, 131072),
    ({"model_type": "qwen2", "max_position_embeddings": 32768, "rope_scaling": YARN}, 32768),
    ({"model_type": "qwen2", "max_position_embeddings": 32768, "rope_scaling": {"type": "yarn", "factor": 4.0}}, 32768),
    # Gemma 3's limit is after scaling, and its class's default where the config leaves it out.
    (
        {
            "model_type": "gemma3_text", "max_position_embeddings": 131072,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
        131072,
    ),
    ({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560}}, 131072),
    ({"model_type": "cohere", "max_position_embeddings": 8192, "model_max_length": 131072}, 131072),
    ({"model_type": "gpt2", "n_positions": 512}, 512),
    ({"model_type": "mpt", "max_seq_len": 8192}, 8192),
    ({"model_type": "chatglm", "seq_length": 32768}, 32768),
    ({"model_type": "falcon"}, 2048),
    ({"model_type": "llama", "max_position_embeddings": 8192, "max_seq_len": 4096}, 4096),
]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "window"),
    [
        *WINDOWS,
        ({}, None),
        ({"max_position_embeddings": None, "max_seq_len": 4096}, 4096),
        ({"max_position_embeddings": 4096.0}, 4096),
        ({"thinker_config": {"text_config": {"max_position_embeddings": 4096}}}, 4096),
        ({"text_config": {"max_position_embeddings": 4096}}, 4096),
        ({"llm_config": {"max_position_embeddings": 4096}}, 4096),
        ({"text_config": "none", "max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": "linear"}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": None}}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": float("inf")}}, 4096),
        (
            {
                "max_position_embeddings": 32768,
                "rope_parameters": {"full_attention": {"rope_type": "default"}, "sliding_attention": {}},
            },
            32768,
        ),
        (
            {
                "max_position_embeddings": 4096,
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "factor": 2.0},
                    "sliding_attention": {"rope_type": "default"},
                },
            },
            8192,
        ),
    ],
)
def test_the_window_is_the_one_vllm_derives(tmp_path: Path, config: dict[str, Any], window: int | None) -> None:
    assert read_model(write(tmp_path, config)).window == window


@pytest.mark.parametrize("value", [0, -3, "12", True, [], 1.5, float("nan"), 1 << 70])
@pytest.mark.parametrize("key", ["max_position_embeddings", "model_max_length", "n_positions"])
def test_a_window_that_is_no_number_of_tokens_is_named(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"config\.json: {key}: .* cannot be used; use a number of tokens above 0"):
        read_model(write(tmp_path, {"model_type": "llama", key: value}))


VLLMS_OWN = """
import json, sys
from types import SimpleNamespace
from vllm.config.model import _get_and_verify_max_len
from vllm.transformers_utils.config import get_config, get_hf_text_config
from vllm.transformers_utils.model_arch_config_convertor import ModelArchConfigConvertorBase

def window(folder):
    config = get_config(folder, trust_remote_code=False)
    text = get_hf_text_config(config)
    derived = ModelArchConfigConvertorBase(config, text).derive_max_model_len_and_key()
    architecture = SimpleNamespace(derived_max_model_len_and_key=derived)
    return _get_and_verify_max_len(text, architecture, None, None, False, None)

print(json.dumps([window(folder) for folder in sys.argv[1:]]))
"""


@pytest.mark.vllm
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment")
@pytest.mark.timeout(300)
def test_vllm_says_the_same(tmp_path: Path) -> None:
    folders = [str(write(tmp_path / str(i), config)) for i, (config, _) in enumerate(WINDOWS)]
    ran = subprocess.run([sys.executable, "-c", VLLMS_OWN, *folders], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == [window for _, window in WINDOWS]


def test_parameters_are_estimated_from_the_weights(checkpoint: Path) -> None:
    (checkpoint / "more.safetensors").write_bytes(b"x" * 93)
    model = read_model(checkpoint)
    assert model.weight_bytes == 100
    assert model.parameters == 50
    assert model.path == checkpoint.resolve()


def test_no_checkpoint_is_named_with_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"^model: {tmp_path}/none is not a folder; use: .*, or a folder with") as e:
        read_model(tmp_path / "none")
    assert all(name in str(e.value) for name in DEMO_MODELS)
    with pytest.raises(ConfigError, match=r"^variants\.fp8\.model: "):
        read_model(tmp_path, "variants.fp8.model")


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not readable as JSON"), ("[]", "is not a JSON object"), ("[" * 100_000, "nested too deeply")],
)
def test_a_broken_config_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_model(write(tmp_path, text))


def test_a_folder_comes_before_a_demo_model_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "demo_model", lambda _: write(tmp_path / "fetched", {}))
    assert read_model(Path("smollm2")).path == tmp_path / "fetched"
    write(tmp_path / "smollm2", {})
    assert read_model(Path("smollm2")).path == tmp_path / "smollm2"


def test_every_file_that_decides_answers_is_hashed(checkpoint: Path) -> None:
    (checkpoint / "README.md").write_text("no part of it")
    (checkpoint / "chat_template.jinja").write_text("{{ messages }}")
    before = hash_model(read_model(checkpoint))
    assert sorted(before) == ["chat_template.jinja", "config.json", "model.safetensors"]
    (checkpoint / "chat_template.jinja").write_text("{{ message }}")
    after = hash_model(read_model(checkpoint))
    assert {name for name in before if before[name] != after[name]} == {"chat_template.jinja"}


def test_large_weights_are_sampled_from_end_to_end(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WHOLE_FILE_BYTES", 1000)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 16)
    path = checkpoint / "model.safetensors"
    path.write_bytes(bytes(5000))
    model = read_model(checkpoint)
    before = hash_model(model)["model.safetensors"]
    assert before.startswith("sampled:")
    seen = set()
    for at in (0, 4999, None):
        data = bytearray(5000 if at is not None else 5001)
        if at is not None:
            data[at] = 1
        path.write_bytes(bytes(data))
        seen.add(hash_model(model)["model.safetensors"])
    assert len(seen | {before}) == 4
