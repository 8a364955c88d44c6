from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kveval.config.read import load_config
from kveval.config.sweep import SweepConfig, validate_config
from kveval.config.values import parse_length
from kveval.config.variant import SHORTHANDS
from kveval.errors import ConfigError
from kveval.formats.registry import CACHE_DTYPES
from kveval.resources import presets

MINIMAL: dict[str, Any] = {"model": "m", "variants": ["bf16"], "tasks": ["t"], "context_lengths": [512]}


def config(**changes: Any) -> SweepConfig:
    return validate_config(MINIMAL | changes)


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("4k", 4096), ("4K", 4096), (" 128k ", 131072), ("1m", 1048576), ("4096", 4096), (4096, 4096), (1, 1)],
)
def test_lengths(text: Any, tokens: int) -> None:
    assert parse_length(text) == tokens


@pytest.mark.parametrize("text", ["4kk", "", "k", "-4k", "0", "0k", "4.5k", "4 k", "4g", True, None, 4.0, "1e3", [4]])
def test_what_is_no_length(text: Any) -> None:
    with pytest.raises(ValueError, match="is not a context length; use tokens such as 4096, 4k"):
        parse_length(text)


@pytest.mark.parametrize("text", ["17m", "1000m", "99999999999"])
def test_a_length_no_model_reads(text: str) -> None:
    with pytest.raises(ValueError, match="is longer than any model reads; use up to 16m"):
        parse_length(text)


@pytest.mark.parametrize("where", ["sweep", "task"])
def test_more_samples_than_fit_into_memory(tmp_path: Path, where: str) -> None:
    samples = {"samples": 100_001}
    task = {"name": "niah_single"} | (samples if where == "task" else {})
    data = {"model": "/m", "variants": ["bf16"], "context_lengths": ["4k"], "tasks": [task]}
    with pytest.raises(ConfigError, match=r"samples: 100001 is not allowed; use: 100000 or less"):
        load_config(write(tmp_path / "c.yaml", yaml.safe_dump(data | (samples if where == "sweep" else {}))))


def test_yes_is_not_one() -> None:
    with pytest.raises(ConfigError, match="samples: True is not a number"):
        config(samples=True)


@pytest.mark.parametrize("text", ["model: a\nmodel: b\n", "judge: {margin: 0.1, margin: 0.2}\n"])
def test_a_key_given_twice_is_named_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"line \d\): not YAML: key 'm(odel|argin)' is given twice"):
        load_config(write(tmp_path / "c.yaml", text))


@given(st.text(max_size=6))
def test_no_text_is_a_length_by_accident(text: str) -> None:
    try:
        assert parse_length(text) > 0
    except ValueError as error:
        assert repr(text) in str(error)  # noqa: PT017


@pytest.mark.parametrize("name", sorted(SHORTHANDS))
def test_every_shorthand_is_a_variant_of_its_name(name: str) -> None:
    variant = config(variants=["bf16", name] if name != "bf16" else ["bf16"]).variant(name)
    assert variant.name == name
    assert CACHE_DTYPES[variant.kv_cache_dtype].is_in_vllm


def test_a_dtype_that_kveval_does_not_know_is_left_to_planning() -> None:
    variant = config(variants=["bf16", {"name": "new", "kv_cache_dtype": "mxfp4"}]).variant("new")
    assert variant.kv_cache_dtype == "mxfp4"
    assert variant.is_quantized


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("mxfp4", r"'mxfp4' is not a variant; .*use \{name: NAME, kv_cache_dtype: mxfp4\}"),
        ({"name": "x", "kv_cache_dtype": "float32"}, "vLLM has no cache dtype 'float32'; use bfloat16"),
    ],
)
def test_a_variant_that_cannot_be_launched_is_refused(variant: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(variants=["bf16", variant])


@pytest.mark.parametrize(
    ("name", "quantized"),
    [("bf16", False), ("fp16", False), ("auto", False), ("fp8", True), ("int8", True), ("int4", True)],
)
def test_what_is_quantized(name: str, quantized: bool) -> None:
    variants = ["bf16", name] if name != "bf16" else ["bf16"]
    assert config(variants=variants).variant(name).is_quantized == quantized


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"name": "fp8", "control": "emulated"}, {"kv_cache_dtype": "fp8", "control": "emulated"}),
        ({"name": "int8", "engine_args": {"x": 1}}, {"kv_cache_dtype": "int8_per_token_head",
                                                     "emulate_where_missing": True, "engine_args": {"x": 1}}),
        ({"name": "mine", "emulate": {"format": "int8"}}, {"kv_cache_dtype": "bfloat16"}),
        ({"name": "mine", "kv_cache_dtype": "int8"}, {"kv_cache_dtype": "int8_per_token_head",
                                                      "emulate_where_missing": True, "name": "mine"}),
        ({"name": "fp8", "kv_cache_dtype": "fp8_e5m2"}, {"kv_cache_dtype": "fp8_e5m2", "name": "fp8"}),
    ],
)  # fmt: skip
def test_variants_as_mappings(given_: dict[str, Any], expected: dict[str, Any]) -> None:
    variant = config(variants=["bf16", given_]).variants[1]
    assert {key: getattr(variant, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"smaples": 3}, "configuration: unknown key 'smaples'; did you mean 'samples'"),
        ({"engine": {"pythn": "x"}}, r"unknown key 'engine\.pythn'; did you mean 'python'"),
        ({"requests": {"timeout": 3}}, r"unknown key 'requests\.timeout'; did you mean 'timeout_s'"),
        ({"judge": {"margn": 3}}, r"unknown key 'judge\.margn'; did you mean 'margin'"),
        ({"tasks": [{"name": "t", "sample": 3}]}, r"unknown key 'tasks\.0\.sample'; did you mean 'samples'"),
        ({"variants": [{"name": "bf16", "engin_args": {}}]}, r"unknown key 'variants\.0\.engin_args'; did you mean"),
        ({"variants": ["bf16", {"name": "x", "emulate": {"fromat": "int8"}}]}, "did you mean 'format'"),
        ({"variants": ["bf16", {"name": "x", "emulate": {"format": "int9"}}]}, r"variants\.1\.emulate\.format: .*int9"),
        ({"variants": ["bf16", {"name": "a/b", "kv_cache_dtype": "fp8"}]}, "'a/b' is not a variant name; use let"),
        ({"variants": [{"name": "x"}]}, r"variants\.0\.kv_cache_dtype: required, not given"),
        ({"variants": [None]}, r"variants\.0: None is not allowed"),
        ({"variants": [["bf16"]]}, r"variants\.0: \['bf16'\] is not allowed"),
        ({"tasks": ["t", "t"]}, "tasks: t is listed twice"),
        ({"tasks": "t"}, "tasks: 't' is not allowed"),
        ({"context_lengths": [512, "512"]}, "context_lengths: 512 is listed twice"),
        ({"context_lengths": ["4kk"]}, r"context_lengths\.0: '4kk' is not a context length; use"),
        ({"context_lengths": 512}, "context_lengths: 512 is not allowed"),
        ({"baseline": "fp8"}, "baseline: 'fp8' is not among the variants; .*use: bf16"),
        ({"variants": ["fp8"], "baseline": "fp8"}, "baseline: 'fp8' is itself quantized; use"),
        ({"aa_share": float("nan")}, "aa_share: nan is not allowed"),
        ({"aa_share": 1.5}, "aa_share: 1.5 is not allowed; use: 1.0 or less"),
        ({"cold_check": -1}, "cold_check: -1 is not allowed; use: 0 or more"),
        ({"cold_check": 1.5}, "cold_check: 1.5 is not allowed; use: "),
        ({"cold_check": True}, "cold_check: True is not a number"),
        ({"cold_check": "x"}, "cold_check: 'x' is not allowed; use: a whole number"),
        ({"engine": {"args": {"x": [1]}}}, r"engine\.args\.x: \[1\] is not allowed; use: text"),
        ({"haystack": "x"}, "haystack: 'x' is not allowed; use: 'essays', 'wikipedia' or 'generated'"),
        ({"engine": {"port": 70000}}, r"engine\.port: 70000 is not allowed"),
        ({"engine": None}, "engine: None is not allowed"),
        ({"requests": {"max_attempts": 0}}, r"requests\.max_attempts: 0 is not allowed"),
    ],
)  # fmt: skip
def test_bad_values_are_named_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        config(**changes)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("key", ["model", "variants", "tasks", "context_lengths"])
def test_what_is_required(key: str) -> None:
    with pytest.raises(ConfigError, match=f"configuration: {key}: required, not given"):
        validate_config({name: value for name, value in MINIMAL.items() if name != key})


def test_a_configuration_survives_json() -> None:
    made = config(variants=["bf16", "int8", {"name": "x", "emulate": {"format": "int8", "layers": [3, 1]}}])
    assert validate_config(json.loads(json.dumps(made.model_dump(mode="json")))) == made


def test_a_run_keeps_no_secret_of_the_environment() -> None:
    env = {
        "HF_TOKEN": "s3cret", "MY_API_KEY": "s3cret", "API_KEY_FILE": "s3cret", "SECRET_OF_MINE": "s3cret",
        "DB_PASS": "s3cret", "DB_URL": "postgres://u:s3cr@t@h/x", "INDEX": "https://s3cret@a/b,https://c:s3cret@d/e@f",
        "TOKENIZERS_PARALLELISM": "false", "HF_ENDPOINT": "https://host:8000/a@b",
    }  # fmt: skip
    made = config(engine={"env": env}, variants=[{"name": "bf16", "kv_cache_dtype": "bfloat16", "env": env}])
    kept = {
        "HF_TOKEN": "(hidden)", "MY_API_KEY": "(hidden)", "API_KEY_FILE": "(hidden)", "SECRET_OF_MINE": "(hidden)",
        "DB_PASS": "(hidden)", "DB_URL": "postgres://(hidden)@h/x",
        "INDEX": "https://(hidden)@a/b,https://(hidden)@d/e@f",
        "TOKENIZERS_PARALLELISM": "false", "HF_ENDPOINT": "https://host:8000/a@b",
    }  # fmt: skip
    stored = made.model_dump(mode="json")
    assert stored["engine"]["env"] == stored["variants"][0]["env"] == kept
    assert made.engine.env == made.variants[0].env == env


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_preset_is_valid(name: str) -> None:
    assert load_config(name).variants


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


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"a\.yaml: not YAML"):
        load_config(str(tmp_path / "a.yaml"))


def test_keys_that_are_no_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.yaml: "):
        load_config(write(tmp_path / "a.yaml", "1: 2\nmodel: m\n"))


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
