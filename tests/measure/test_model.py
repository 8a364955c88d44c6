from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kveval.demo_models import DEMO_MODELS
from kveval.errors import ConfigError
from kveval.measure import model as module
from kveval.measure.model import hash_model, read_model


def write(path: Path, config: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return path


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ({}, None),
        ({"max_position_embeddings": "8192"}, None),
        ({"max_position_embeddings": 8192}, 8192),
        ({"text_config": {"max_position_embeddings": 4096}}, 4096),
        ({"text_config": "none", "max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": None}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": "linear"}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 2.0}}, 8192),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "dynamic", "factor": 4}}, 16384),
        ({"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131072),
        (
            {
                "max_position_embeddings": 131072,
                "rope_parameters": {
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 32768,
                },
            },
            131072,
        ),
        ({"max_position_embeddings": 32768, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 131072),
        (
            {
                "max_position_embeddings": 32768,
                "rope_parameters": {"full_attention": {"rope_type": "default"}, "sliding_attention": {}},
            },
            32768,
        ),
    ],
)
def test_the_window_is_the_one_vllm_derives(tmp_path: Path, config: dict[str, Any], window: int | None) -> None:
    assert read_model(write(tmp_path, config)).window == window


def test_parameters_are_estimated_from_the_weights(checkpoint: Path) -> None:
    (checkpoint / "more.safetensors").write_bytes(b"x" * 93)
    model = read_model(checkpoint)
    assert model.weight_bytes == 100
    assert model.parameters == 50
    assert model.path == checkpoint.resolve()


def test_no_checkpoint_is_named_with_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"^model: {tmp_path}/none is no folder; allowed: .*, or a folder with") as e:
        read_model(tmp_path / "none")
    assert all(name in str(e.value) for name in DEMO_MODELS)
    with pytest.raises(ConfigError, match=r"^variants\.fp8\.model: "):
        read_model(tmp_path, "variants.fp8.model")


@pytest.mark.parametrize(("text", "message"), [("{", "not readable as JSON"), ("[]", "is not a JSON object")])
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
