from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kveval.engines.vllm import reasoning_parsers
from kveval.engines.vllm.reasoning_parsers import parser_markers
from kveval.tasks.assembly.tokenizer import StandInTokenizer
from kveval.tasks.scoring.model_reasoning import read_reasoning

PARSERS = """
START = "<muse>"
class A(Base):
    @property
    def start_token(self) -> str:
        "The token."
        return START
    @property
    def end_token(self): return "</muse>"
class B:
    THINK_START = "<|b|>"
    THINK_END = "<|/b|>"
def config():
    return Config(terminals={"THINK_START": "[C]", "THINK_END": "[/C]", **more})
class Half:
    def start_token(self): return f"<{1}>"
    def end_token(self): return "</d>"
"""


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    parser_markers.cache_clear()


def test_what_parsers_name_is_read_without_importing_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reasoning").mkdir()
    (tmp_path / "reasoning" / "a.py").write_text(PARSERS)
    (tmp_path / "reasoning" / "broken.py").write_text("def (")
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(reasoning_parsers.importlib.util, "find_spec", lambda _: found)
    assert set(parser_markers()) == {("<muse>", "</muse>"), ("<|b|>", "<|/b|>"), ("[C]", "[/C]")}


def test_without_vllm_there_is_nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoning_parsers.importlib.util, "find_spec", lambda _: None)
    assert parser_markers() == ()


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="needs the source of vLLM")
def test_the_table_has_whatever_the_installed_parsers_name() -> None:
    before = set(sys.modules)
    pairs = parser_markers()
    assert ("<think>", "</think>") in pairs
    assert ("<|START_THINKING|>", "<|END_THINKING|>") in pairs
    assert read_reasoning(StandInTokenizer(), None, pairs).markers == ()
    assert not any(name.startswith("vllm") for name in set(sys.modules) - before)
