from __future__ import annotations

from pathlib import Path

import pytest
from support.make_run import Answer, make_run, make_samples, scored

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.judge.statistics.difference import paired_difference
from kveval.report.labels import (
    capacity_label,
    difference_label,
    length_label,
    proven_safe,
    storage_label,
    with_word,
)
from kveval.run.facts import Facts


@pytest.mark.parametrize(("tokens", "label"), [(8192, "8K"), (3000, "3,000"), (None, "overall")])
def test_lengths(tokens: int | None, label: str) -> None:
    assert length_label(tokens) == label


def test_a_difference_without_an_interval_says_so() -> None:
    assert difference_label(paired_difference([1.0, 1.0], [0.0, 1.0], ["a", "a"])) == "-50.0 [too few]"
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


def lengths(path: Path, haystacks: int, candidate: Answer) -> list[Comparison]:
    samples = make_samples(haystacks=haystacks, questions=1)
    run = load_run(make_run(path / "run", samples=samples, answers={"bf16": scored(0.9), "fp8": candidate}))
    return judge_run(run).of("fp8", "length")


@pytest.mark.parametrize(
    ("haystacks", "share", "text"),
    [
        (400, 0.9, "8K, the longest asked"),
        (400, 0.5, "nothing yet (2K fails)"),
        (40, 0.9, "nothing yet (2K undecided)"),
    ],
)
def test_the_longest_context_proven_safe(tmp_path: Path, haystacks: int, share: float, text: str) -> None:
    assert proven_safe(lengths(tmp_path, haystacks, scored(share))) == text


def test_nothing_asked_proves_nothing() -> None:
    assert proven_safe([]) == "no context length was asked"


@pytest.mark.parametrize(
    ("word", "reason", "said"),
    [
        ("undecided", "undecided overall: too few", "undecided overall: too few"),
        ("fail", "passes at 2K; fails at 8K", "passes at 2K; fails at 8K"),
        ("pass", "a loss is excluded", "pass: a loss is excluded"),
        ("infrastructure", "fp8 is refused", "infrastructure: fp8 is refused"),
    ],
)
def test_the_word_of_a_verdict_is_said_once(word: str, reason: str, said: str) -> None:
    assert with_word(word, reason) == said
