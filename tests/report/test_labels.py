from __future__ import annotations

import pytest

from kveval.judge.statistics.difference import paired_difference
from kveval.report.labels import capacity_label, difference_label, length_label, listed, storage_label
from kveval.run.facts import Facts


@pytest.mark.parametrize(("tokens", "label"), [(8192, "8K"), (3000, "3,000"), (None, "overall")])
def test_lengths(tokens: int | None, label: str) -> None:
    assert length_label(tokens) == label


@pytest.mark.parametrize(
    ("names", "text"), [(["8K"], "8K"), (["8K", "16K"], "8K and 16K"), (["8K", "16K", "32K"], "8K, 16K and 32K")]
)
def test_lists(names: list[str], text: str) -> None:
    assert listed(names) == text


def test_a_difference_without_an_interval_says_so() -> None:
    assert difference_label(paired_difference([1.0, 1.0], [0.0, 1.0], ["a", "a"])) == "-50.0 [no interval]"
    assert difference_label(paired_difference([], [], [])) == ""


@pytest.mark.parametrize(
    ("facts", "storage", "capacity"),
    [
        (Facts(), "", ""),
        (
            Facts(storage="native", effective_cache_dtype="fp8_e4m3", kv_capacity_ratio=2.0),
            "native fp8_e4m3",
            "KV capacity x2.00",
        ),
        (
            Facts(storage="emulated", emulation="int8 per_token_head (emulated)", kv_capacity_ratio=1.0),
            "emulated int8 per_token_head",
            "no memory saved",
        ),
        (
            Facts(
                storage="native", effective_cache_dtype="q8_0", kv_capacity_ratio=1.9,
                declared=["effective_cache_dtype", "kv_capacity_tokens"],
            ),
            "native q8_0 (declared)",
            "KV capacity x1.90 (declared)",
        ),
    ],
)  # fmt: skip
def test_storage_and_capacity(facts: Facts, storage: str, capacity: str) -> None:
    assert (storage_label(facts), capacity_label(facts)) == (storage, capacity)
