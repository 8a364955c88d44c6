from __future__ import annotations

from pathlib import Path

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.judge.run_data import load_run
from kveval.report.html.report import build_report
from kveval.report.sections.flips.divergence import TokenTexts
from kveval.report.sections.flips.forced_answer import MOST_TOKENS, forced_answer


@pytest.fixture
def texts(tmp_path: Path) -> TokenTexts:
    return TokenTexts(load_run(make_run(tmp_path / "run", answers={"bf16": scored(0.9)})).manifest)


def said(score: float, ids: list[int], logprobs: list[float], lead: str = "The number is") -> dict[str, object]:
    expected = {"score": score, "unit": "probability", "temperature": 0.6, "lead": lead, "token_ids": [ids, [9]],
                "logprobs": [logprobs, [-1.0]]}  # fmt: skip
    return {"expected": expected, "expected_error": None}


NOTHING: dict[str, object] = {"expected": None, "expected_error": None}


def test_both_sides_stand_beside_each_other(texts: TokenTexts) -> None:
    found = forced_answer(said(0.5, [1, 2], [0.0, -0.7]), said(0.3, [1, 2], [-0.1, -1.1]), texts)
    assert found is not None
    assert (found.name, found.baseline_score, found.candidate_score) == ("expected probability at T 0.6", 0.5, 0.3)
    assert [token.token_id for token in found.tokens] == [1, 2]
    assert [token.baseline_p for token in found.tokens] == [1.0, pytest.approx(0.4966, abs=1e-4)]
    assert found.tokens[1].candidate_p == pytest.approx(0.3329, abs=1e-4)
    assert (found.lead, found.other_texts, found.more_tokens) == ("The number is", 1, 0)


def test_a_side_that_could_not_be_forced_says_why(texts: TokenTexts) -> None:
    error = {"expected": None, "expected_error": {"kind": "non_finite", "message": "NaN"}}
    found = forced_answer(said(0.5, [1], [0.0]), error, texts)
    assert found is not None
    assert (found.candidate_score, found.candidate_error) == (None, "non_finite: NaN")
    assert found.tokens[0].candidate_p is None


def test_other_tokens_are_not_compared(texts: TokenTexts) -> None:
    found = forced_answer(said(0.5, [1, 2], [0.0, 0.0]), said(0.3, [1, 3], [0.0, 0.0]), texts)
    assert found is not None
    assert [token.candidate_p for token in found.tokens] == [None, None]


def test_a_long_answer_is_cut_and_counted(texts: TokenTexts) -> None:
    ids = list(range(MOST_TOKENS + 5))
    found = forced_answer(said(0.5, ids, [0.0] * len(ids)), NOTHING, texts)
    assert found is not None
    assert (len(found.tokens), found.more_tokens) == (MOST_TOKENS, 5)


def test_greedy_answers_have_none(texts: TokenTexts) -> None:
    assert forced_answer(NOTHING, NOTHING, texts) is None


def test_a_hostile_lead_stays_text(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        samples=make_samples(haystacks=6, questions=4),
        answers={"bf16": scored(0.9), "fp8": scored(0.4)},
        expected={"bf16": lambda _: 0.5, "fp8": lambda _: 0.4},
    )
    for file in (path / "records").glob("*.jsonl"):
        file.write_text(file.read_text().replace('"lead": ""', '"lead": "<script>alert(1)</script>\\u202e"'))
    page = build_report(path).read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert(1)" not in page
    assert "\u202e" not in page
    assert "How probable the right answer is (expected probability at T 1)" in page
