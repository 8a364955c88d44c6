"""What is taken as a configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import kveval
from kveval.api import source
from kveval.api.source import engine_for, incomplete, read_config, untrusted
from kveval.config.sweep import validate_config
from kveval.engines.base import NOTHING_TO_LAUNCH
from kveval.errors import ConfigError, InfrastructureError, RunDirectoryError
from kveval.run.manifest import VariantRun


@pytest.mark.parametrize("typed", [False, True])
def test_keywords_replace_keys(keys: dict[str, Any], typed: bool) -> None:
    plan = kveval.plan_sweep(validate_config(keys) if typed else keys, samples=2, variants=["bf16", "int8"])
    assert plan["samples"] == 2
    assert [variant["name"] for variant in plan["variants"]] == ["bf16", "int8"]


def test_a_misspelt_keyword_is_named_with_the_right_one(keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="unknown key 'smaples'; did you mean 'samples'"):
        kveval.plan_sweep(keys, smaples=2)


def test_keys_without_a_run_directory_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="out: required, not given; use a folder"):
        kveval.sweep(keys)


def test_the_default_run_directory_is_named_after_the_file_and_the_time(
    keys: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    monkeypatch.chdir(tmp_path)
    path = tmp_path / "nightly.yaml"
    path.write_text(yaml.safe_dump(keys))
    assert re.fullmatch(r"runs/nightly-\d{8}-\d{6}", str(read_config(path, None, {}).out))
    assert re.fullmatch(r"runs/demo-\d{8}-\d{6}", str(read_config("demo", None, {}).out))
    assert read_config(path, "flag", {}).out == Path("flag")
    path.write_text(yaml.safe_dump(keys | {"out": "elsewhere"}))
    assert read_config(path, None, {}).out == Path("elsewhere")


def test_without_a_folder_the_newest_run_of_that_name_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunDirectoryError, match="no run runs/demo-TIME to go on with; use: --out"):
        read_config("demo", None, {}, resume=True)
    for name in ("demo-20261130-235959", "demo-20261201-000001", "demo-float32-20261202-000001", "demo-other", "demo"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    assert read_config("demo", None, {}, resume=True).out == Path("runs/demo-20261201-000001")
    assert read_config("demo", "given", {}, resume=True).out == Path("given")


def test_what_is_incomplete_is_named_with_its_reason() -> None:
    complete = VariantRun(name="bf16", role="baseline", spec={}, status="complete")
    failed = VariantRun(name="fp8", role="candidate", spec={}, status="failed", reason="out of memory")
    assert incomplete("sweep", {"bf16": complete}) is None
    found = incomplete("load", {"bf16": complete, "fp8": failed})
    assert str(found) == "the load is incomplete: fp8 failed: out of memory"


def test_servers_that_run_need_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "find_installation", lambda _: pytest.fail("looked for an engine"))
    endpoint = {"name": "bf16", "endpoint": {"url": "http://host:8000", "model": "m"}}
    keys = {"model": "m", "variants": [endpoint], "tasks": ["t"], "context_lengths": [512]}
    assert engine_for(read_config(keys, "run", {})) is NOTHING_TO_LAUNCH


def test_a_run_that_cannot_be_judged_is_an_error_that_names_every_problem() -> None:
    assert untrusted([]) is None
    error = untrusted([{"message": "a: one"}, {"message": "b: two"}])
    assert isinstance(error, InfrastructureError)
    assert "a: one; b: two" in str(error)
