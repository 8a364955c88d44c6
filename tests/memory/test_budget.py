from __future__ import annotations

from typing import Any

import pytest

from kveval.errors import UsageError
from kveval.memory.budget import GIB, make_budget, parse_size
from kveval.models.weights import Weights


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GiB", 80 << 30), ("80 GiB", 80 << 30), ("80gib", 80 << 30), ("80GB", 80 * 10**9), ("80G", 80 * 10**9),
        ("1.5TiB", 3 << 39), ("512MiB", 512 << 20), ("16Ki", 16 << 10),
    ],
)  # fmt: skip
def test_a_text_is_read_as_bytes(text: str, size: int) -> None:
    assert parse_size(text, "--memory") == size


@pytest.mark.parametrize("text", ["", "80", "-1GiB", "0GiB", "GiB", "80GiBs", "1e3GiB", "eighty GiB"])
def test_a_text_that_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--memory: .* is not a size; use 80GiB"):
        parse_size(text, "--memory")


def test_budget() -> None:
    files = Weights(1000)
    assert make_budget(files) is None
    budget = make_budget(files, memory="1GiB", utilization=0.5)
    assert budget is not None
    assert (budget.cache_bytes, budget.weight_bytes) == (GIB // 2 - 1000, 1000)
    shared = make_budget(files, 4, memory="80GiB", weights="100GiB")
    assert shared is not None
    assert (shared.cache_bytes, shared.weight_bytes) == ((72 - 25) * GIB, 25 * GIB)
    given = make_budget(None, cache="2GiB")
    assert given is not None
    assert (given.cache_bytes, given.memory_bytes) == (2 * GIB, None)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        # Without weights too, the flag that is wrong is the one named.
        ({"memory": "80"}, ["--memory: '80' is not a size"]),
        ({"memory": "80GiB"}, ["--weights: ", "has no weight files", "such as --weights 16GiB"]),
        ({"memory": "80GiB", "cache": "2GiB"}, ["--cache", "use one of the two"]),
        ({"memory": "80GiB", "weights": "16"}, ["--weights: '16' is not a size"]),
        ({"memory": "80GiB", "weights": "16GiB", "utilization": 1.1}, ["--utilization: 1.1", "up to 1"]),
        ({"memory": "80GiB", "weights": "16GiB", "utilization": float("nan")}, ["--utilization: nan"]),
        (
            {"memory": "16GiB", "weights": "16GiB"},
            ["--memory: 16.00 GiB x 0.9 = 14.40 GiB", "the weights take 16.00 GiB", "more than 17.78 GiB"],
        ),
    ],
)
def test_invalid_budgets_are_refused(flags: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        make_budget(None, **flags)
    for word in words:
        assert word in str(caught.value)
