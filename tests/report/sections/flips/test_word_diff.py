from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from kveval.report.sections.flips.word_diff import side_by_side, word_diff

texts = st.text(st.sampled_from("ab c\n.é"), max_size=60)


@given(texts, texts)
def test_nothing_is_lost_and_what_is_unmarked_is_common(first: str, second: str) -> None:
    left, right = word_diff(first, second)
    assert "".join(text for text, _ in left) == first
    assert "".join(text for text, _ in right) == second
    assert "".join(text for text, only in left if not only) == "".join(text for text, only in right if not only)


def test_words_are_marked_and_not_letters() -> None:
    left, right = word_diff("The number is 4821140.", "The number is 4821141.")
    assert left == (("The number is", False), (" 4821140", True), (".", False))
    assert right == (("The number is", False), (" 4821141", True), (".", False))


@given(texts, texts, st.integers(1, 30))
def test_what_is_left_out_is_counted(first: str, second: str, limit: int) -> None:
    for text, shown in zip((first, second), side_by_side(first, second, limit), strict=True):
        length = sum(len(piece) for piece, _ in shown.pieces)
        assert length <= limit
        assert shown.before + length + shown.after == len(text)
        assert text[shown.before : shown.before + length] == "".join(piece for piece, _ in shown.pieces)


def test_a_late_difference_is_shown() -> None:
    ours, theirs = side_by_side("a " * 5_000 + "right", "a " * 5_000 + "wrong", 400)
    assert ours.pieces[-1] == (" right", True)
    assert theirs.pieces[-1] == (" wrong", True)
    assert 9_600 < ours.before < 10_000


def test_long_outputs_take_no_time() -> None:
    words = [str(number % 7) for number in range(100_000)]
    started = time.perf_counter()
    side_by_side("x " + " ".join(words), "y " + " ".join(words[::-1]), 4_000)
    side_by_side("x" * 200_000, "y" * 200_000, 4_000)
    assert time.perf_counter() - started < 2
