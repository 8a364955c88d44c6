"""Writing a first configuration from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import kveval
from kveval.api.starting import DEFAULT_SAMPLES, DEFAULT_TASKS
from kveval.config.read import load_config
from kveval.errors import UsageError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sweep.yaml"


def test_what_is_written_is_what_was_asked_for(file: Path, checkpoint: Path) -> None:
    kveval.write_config(file, model=checkpoint, variants=["f16", "int8"], context_lengths=[512, 4096],
                        tasks=["niah_single"], samples=7, python="/opt/python")  # fmt: skip
    config = load_config(str(file))
    assert config.model == checkpoint
    assert ([one.name for one in config.variants], config.baseline) == (["f16", "int8"], "f16")
    assert (config.context_lengths, config.samples) == ([512, 4096], 7)
    assert ([one.name for one in config.tasks], config.engine.python) == (["niah_single"], Path("/opt/python"))


def test_every_key_has_a_comment_and_defaults_are_there(file: Path) -> None:
    kveval.write_config(file, model="smollm2")
    text = file.read_text()
    config = load_config(str(file))
    assert config.context_lengths == []
    assert config.variant("fp8").emulate_where_missing
    assert text.count("# ") >= 8
    assert "# context_lengths: [4k, 16k, 64k]" in text


def test_servers_that_run_already(file: Path) -> None:
    addresses = {"bf16": "http://gpu1:8000", "fp8": "http://gpu2:8000"}
    kveval.write_config(file, model="smollm2", endpoints=addresses, served_model="llama")
    config = load_config(str(file))
    assert config.is_attached
    assert [one.endpoint.url for one in config.variants if one.endpoint] == [*addresses.values()]
    assert "engine:" not in file.read_text()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"tasks": ["niah_singel"]}, "--tasks: 'niah_singel' is not a task; did you mean 'niah_single'"),
        ({"variants": ["bf16", "fp9"]}, "'fp9' is not a variant"),
        ({"variants": ["fp8", "int8"]}, "is itself quantized"),
        ({"variants": []}, "variants"),
        ({"samples": 0}, "samples"),
        ({"endpoints": {"bf16": "http://a:1"}}, "--served-model: required with --endpoint"),
        ({"served_model": "llama"}, "--served-model: of no use without --endpoint"),
        ({"endpoints": {"bf16": "http://a:1"}, "served_model": "x", "python": "/p"}, "--python: of no use with"),
    ],
)
def test_what_cannot_be_used_is_refused_and_nothing_written(file: Path, keys: dict[str, object], words: str) -> None:
    given: dict[str, object] = {"model": "smollm2", **keys}
    with pytest.raises(UsageError, match=words):
        kveval.write_config(file, **given)  # type: ignore[arg-type]
    assert not file.exists()


def test_a_file_is_replaced_by_force_only(file: Path) -> None:
    file.write_text("mine")
    with pytest.raises(UsageError, match=r"sweep\.yaml: is there already; use: another FILE, or --force"):
        kveval.write_config(file, model="smollm2")
    assert file.read_text() == "mine"
    kveval.write_config(file, model="smollm2", force=True)
    assert load_config(str(file)).samples == 200


def test_names_that_yaml_would_read_as_something_else_stay_names(file: Path) -> None:
    kveval.write_config(file, model="yes: # no", tasks=["niah_single"])
    assert str(load_config(str(file)).model) == "yes: # no"


def test_the_defaults_are_those_of_the_preset_for_a_gpu(checkpoint: Path) -> None:
    preset = load_config("gpu", {"model": checkpoint})
    assert (tuple(task.name for task in preset.tasks), preset.samples) == (DEFAULT_TASKS, DEFAULT_SAMPLES)
