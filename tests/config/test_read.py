from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kveval.config.read import load_config
from kveval.errors import ConfigError
from kveval.resources import presets


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_preset_is_valid_once_it_has_a_model(name: str) -> None:
    overrides = {} if name.startswith("demo") else {"model": Path("m")}
    assert load_config(name, overrides).baseline in [variant.name for variant in load_config(name, overrides).variants]


def test_a_preset_for_any_model_says_how_to_name_one() -> None:
    with pytest.raises(ConfigError, match="gpu: model: required, not given; use --model with a folder"):
        load_config("gpu")


def test_a_model_path_is_meant_from_the_file_it_stands_in(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    text = "model: {}\nvariants: [bf16]\ntasks: [t]\ncontext_lengths: [1k]\n"
    assert load_config(write(tmp_path / "a.yaml", text.format("checkpoint"))).model == tmp_path / "checkpoint"
    assert load_config(write(tmp_path / "b.yaml", text.format("smollm2"))).model == Path("smollm2")
    assert load_config(str(tmp_path / "a.yaml"), {"model": Path("flag")}).model == Path("flag")


def test_an_include_path_is_meant_from_the_file_it_stands_in(tmp_path: Path) -> None:
    (tmp_path / "my_tasks").mkdir()
    text = "model: m\nvariants: [bf16]\ncontext_lengths: [4k]\ntasks: [mine]\ninclude_path: {}\n"
    path = write(tmp_path / "a.yaml", text.format("my_tasks"))
    assert load_config(path).include_path == tmp_path / "my_tasks"
    assert load_config(path, {"include_path": Path("flag")}).include_path == Path("flag").absolute()


def test_flags_pick_among_what_the_file_defines(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.yaml",
        "model: m\nvariants: [bf16, {name: mine, kv_cache_dtype: fp8, env: {A: b}}]\n"
        "tasks: [{name: t, samples: 3}]\ncontext_lengths: [1k]\n",
    )
    made = load_config(path, {"variants": ["bf16", "mine", "int8"], "tasks": ["t", "u"]})
    assert [variant.name for variant in made.variants] == ["bf16", "mine", "int8"]
    assert made.variant("mine").env == {"A": "b"}
    assert [(task.name, task.samples) for task in made.tasks] == [("t", 3), ("u", None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: [", r"a\.yaml \(line \d\): not YAML: "),
        ("a: b: c", r"a\.yaml \(line 1\): not YAML: mapping values are not allowed here"),
        ("- a", r"a\.yaml: not a mapping of keys to values but list; use the keys model, variants"),
        ("", "but NoneType"),
        ("text", "but str"),
    ],
)
def test_files_that_are_no_configuration(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(write(tmp_path / "a.yaml", text))


def test_keys_that_are_no_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.yaml: "):
        load_config(write(tmp_path / "a.yaml", "1: 2\nmodel: m\n"))


@pytest.mark.parametrize("where", ["sweep", "task"])
def test_more_samples_than_fit_into_memory(tmp_path: Path, where: str) -> None:
    samples = {"samples": 100_001}
    task = {"name": "niah_single"} | (samples if where == "task" else {})
    data = {"model": "/m", "variants": ["bf16"], "context_lengths": ["4k"], "tasks": [task]}
    with pytest.raises(ConfigError, match=r"samples: 100001 is not allowed; use: 100000 or less"):
        load_config(write(tmp_path / "c.yaml", yaml.safe_dump(data | (samples if where == "sweep" else {}))))


def test_neither_file_nor_preset() -> None:
    with pytest.raises(ConfigError, match="dmo: neither a file nor a preset; did you mean 'demo'"):
        load_config("dmo")


def test_flags_hold_for_tasks_with_values_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "model: /m\nvariants: [bf16]\ncontext_lengths: [1k]\n"
        "tasks: [{name: niah_single, samples: 10, context_lengths: [2k], questions_per_haystack: 5}]\n"
    )
    task = load_config(str(path), {"samples": "4", "context_lengths": [512]}).tasks[0]
    assert (task.samples, task.context_lengths, task.questions_per_haystack) == (None, None, 5)
    assert load_config(str(path)).tasks[0].samples == 10


@pytest.mark.parametrize("text", ["model: a\nmodel: b\n", "judge: {margin: 0.1, margin: 0.2}\n"])
def test_a_key_given_twice_is_named_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"line \d\): not YAML: key 'm(odel|argin)' is given twice"):
        load_config(write(tmp_path / "c.yaml", text))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"a\.yaml: not YAML"):
        load_config(str(tmp_path / "a.yaml"))
