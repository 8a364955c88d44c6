"""How many questions a haystack of a task holds."""

from __future__ import annotations

import pytest
from support.families import build

from kveval.measure.questions.capacity import most_that_fit
from kveval.tasks.loader import load_tasks


def most(name: str, length: int, wanted: int = 200, samples: int = 2000) -> int:
    return most_that_fit(load_tasks([name])[name], length, 0, samples, wanted)


def test_needles_fill_no_more_than_a_part_of_it() -> None:
    short, long = most("niah_single", 1024), most("niah_single", 16384)
    assert 10 <= short < 30
    assert long > 4 * short
    assert most("niah_single", 16384, wanted=14) == 14


def test_ten_always_share_one_even_if_it_is_short() -> None:
    assert most("niah_single", 256) == 10


@pytest.mark.parametrize("name", ["common_words", "coverage_list", "fact_update"])
def test_what_a_builder_refuses_is_not_asked(name: str) -> None:
    assert 1 <= most(name, 8192) < 60


def test_what_fits_can_be_built() -> None:
    for name in ("niah_multikey", "kv_lookup", "tools_catalogue"):
        questions = most(name, 4096, samples=120)
        samples = build(load_tasks([name])[name], 4096, samples=120, questions=questions)
        assert len({sample.haystack_id for sample in samples}) == -(-120 // questions)
