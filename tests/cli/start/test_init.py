"""`kveval init`: from flags, by asking, and what it refuses."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from support.commands import Kveval, refused

from kveval.config.read import load_config


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return tmp_path


class Person(io.StringIO):
    """Somebody at a terminal, who types these lines."""

    def isatty(self) -> bool:
        return True


def test_from_flags(kveval: Kveval) -> None:
    code, out, err = kveval("init", "--model", "smollm2", "--lengths", "1k,2k", "--tasks", "niah_single")
    assert (code, err) == (0, "")
    assert out == "written: sweep.yaml\nnext: kveval sweep sweep.yaml --dry-run\n"
    assert load_config("sweep.yaml").context_lengths == [1024, 2048]


def test_by_asking(kveval: Kveval, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Person("smollm2\nbf16,int8\n1k\nniah_single\n\n"))
    code, out, err = kveval("init", "my file.yaml")
    assert code == 0, err
    assert out.endswith("next: kveval sweep 'my file.yaml' --dry-run\n")
    config = load_config("my file.yaml")
    assert ([one.name for one in config.variants], config.samples) == (["bf16", "int8"], 200)


def test_servers(kveval: Kveval) -> None:
    flags = ("--endpoint", "bf16=http://a:1", "--endpoint", "fp8=http://b:2", "--served-model", "llama")
    assert kveval("init", "--model", "smollm2", *flags)[0] == 0
    assert load_config("sweep.yaml").is_attached
    refused(kveval("init", "x.yaml", "--model", "smollm2", "--variants", "bf16", *flags), "--variants", "--endpoint")
    refused(kveval("init", "x.yaml", "--model", "smollm2", "--endpoint", "http://u:secret@a:1"), "not NAME=URL")


def test_refusals_write_nothing(kveval: Kveval) -> None:
    refused(kveval("init"), "--model: required, not given")
    refused(kveval("init", "--model", "smollm2", "--tasks", "nope"), "--tasks: 'nope'")
    assert not Path("sweep.yaml").exists()
    Path("sweep.yaml").write_text("mine")
    refused(kveval("init", "--model", "smollm2"), "sweep.yaml: is there already", "--force")
    assert Path("sweep.yaml").read_text() == "mine"
    assert kveval("init", "--model", "smollm2", "--force")[0] == 0
