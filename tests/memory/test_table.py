from __future__ import annotations

import io

import pytest
from rich.console import Console
from support.model_configs import published_config

from kveval.memory.budget import Budget
from kveval.memory.estimate import estimate
from kveval.memory.table import memory_table


def shown(name: str, budget: Budget | None = None) -> str:
    sizes = estimate(published_config(name), name, window=32768, formats=["bf16", "fp8"], budget=budget)
    console = Console(file=io.StringIO(), width=120)
    console.print(memory_table(name, sizes))
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "column"), [("gemma-3-27b", "in window"), ("qwen3-next-80b-a3b", "state"), ("llama-3.1-8b", None)]
)
def test_a_column_stands_only_where_layers_need_it(name: str, column: str | None) -> None:
    text = shown(name)
    assert [one for one in ("in window", "state") if one in text] == ([column] if column else [])


def test_what_fits_stands_only_beside_a_budget() -> None:
    words = ("capacity │", "sequences that fit", "memory for the cache")
    assert not any(word in shown("llama-3.1-8b") for word in words)
    text = shown("llama-3.1-8b", Budget(8 << 30))
    assert "sequences that fit" in text
    assert "memory for the cache 8.00 GiB" in text


def test_a_window_is_explained() -> None:
    assert "tokens beyond the window" in shown("gemma-3-27b", Budget(8 << 30))
