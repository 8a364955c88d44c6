from __future__ import annotations

import pytest

from kveval.tasks.scoring.numbers import by_value, join_thousands


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("10,000", "10000"),
        ("1'234'567", "1234567"),
        ("1_234_567", "1234567"),
        ("1,00,000", "100000"),
        ("1,234,56", "1,234,56"),
        ("1234,567", "1234,567"),
        ("3.1,234", "3.1,234"),
    ],
)
def test_digits_are_grouped_in_threes_by_one_separator(text, joined):
    assert join_thousands(text, spaced=False) == joined


@pytest.mark.parametrize(("text", "joined"), [("1 234 567", "1234567"), ("1.234.567", "1234567")])
def test_spaces_and_points_group_digits_where_asked(text, joined):
    assert join_thousands(text, spaced=True) == joined
    assert join_thousands(text, spaced=False) == text


@pytest.mark.parametrize(
    ("word", "value"),
    [("3.0", "3"), ("3.50", "3.5"), (".5", "0.5"), ("1e6", "1000000"), ("1E-6", "0.000001"), ("-2.0", "-2")],
)
def test_a_number_is_written_as_its_value_reads(word, value):
    assert by_value(word) == value


@pytest.mark.parametrize("word", ["007", "v1.2", "1.2.3", "10:30", "12ab", "1e999999999", "none"])
def test_any_other_word_stays_as_it_is(word):
    assert by_value(word) == word
