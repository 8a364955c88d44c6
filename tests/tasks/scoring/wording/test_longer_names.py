from __future__ import annotations

import pytest

from kveval.tasks.scoring.wording.longer_names import stands_only_in_longer_names


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("New York", "York"), ("new york", "york"), ("West Germany", "Germany"), ("Vice President", "President"),
        ("non-Christian", "Christian"), ("Guinea-Bissau", "Guinea"), ("Anglo-Saxon", "Saxon"), ("Henry VIII", "Henry"),
        ("World War II", "World War"), ("7 million", "7"), ("seven million", "7"), ("twenty-seven", "seven"),
    ],
)  # fmt: skip
def test_a_part_of_a_longer_name_is_another_name(text: str, reference: str) -> None:
    assert stands_only_in_longer_names(text, reference)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("York", "York"), ("York, not New York", "York"), ("in the north York stands", "York"),
        ("New York", "New York"),
        ("Abraham Lincoln", "Lincoln"), ("Great Britain", "Britain"), ("7 miles", "7"), ("27 miles", "27"),
        ("10,000", "10000"), ("1994-95", "1994"), ("New York City", "New York"), ("", "York"), ("York", ""),
        ("a Rollo-led army", "Rollo"),
    ],
)  # fmt: skip
def test_other_words_beside_a_name_leave_it_the_name(text: str, reference: str) -> None:
    assert not stands_only_in_longer_names(text, reference)
