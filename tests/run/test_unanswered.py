from __future__ import annotations

import pytest

from kveval.run.unanswered import too_few_answers


@pytest.mark.parametrize(("unanswered", "most_share"), [(0, 0.0), (1, 0.02), (50, 0.5)])
def test_few_unanswered_questions_are_no_problem(unanswered: int, most_share: float) -> None:
    assert too_few_answers(unanswered, 100, most_share, "HTTP 500") is None


def test_more_are_counted_with_the_limit_and_the_first_error() -> None:
    assert too_few_answers(30, 60, 0.02, "HTTP 400: sampler assert") == (
        "30 of 60 questions have no answer (50.0%, and the limit is 2.0%); the first error: HTTP 400: sampler assert"
    )
    assert str(too_few_answers(1, 60, 0.0, None)).endswith("the limit is 0.0%)")
