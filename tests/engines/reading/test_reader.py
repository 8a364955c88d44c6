"""Readers wait for all that they asked, and say where expected scores come from."""

from __future__ import annotations

import asyncio

import pytest

from kveval.engines.reading.reader import all_of, unforced_finding


async def _after(seconds: float, value: int, ended: list[int]) -> int:
    await asyncio.sleep(seconds)
    ended.append(value)
    if value < 0:
        raise ValueError(value)
    return value


async def test_results_come_in_order_and_at_once() -> None:
    ended = list[int]()
    assert await all_of(_after(seconds, value, ended) for seconds, value in ((0.02, 1), (0.0, 2))) == [1, 2]
    assert ended == [2, 1]


async def test_no_call_is_left_running_when_one_fails() -> None:
    ended = list[int]()
    with pytest.raises(ValueError, match="-1"):
        await all_of(_after(seconds, value, ended) for seconds, value in ((0.0, -1), (0.02, 2), (0.01, -3)))
    assert sorted(ended) == [-3, -1, 2]


@pytest.mark.parametrize(
    ("forced", "why_not_stepwise", "level", "code", "words"),
    [
        (None, None, "info", "stepwise", "expected scores are read token by token, at temperature 1"),
        (None, "no ids", "info", "no_forced_decode", "(no ids); verdicts rest on greedy answers"),
        (False, None, "warning", "forced_decode_off", "expected scores are read token by token, at temperature 1"),
        (False, "no ids", "warning", "forced_decode_off", "(no ids); verdicts rest on greedy answers"),
    ],
)
def test_a_finding_says_where_expected_scores_come_from(
    forced: bool | None, why_not_stepwise: str | None, level: str, code: str, words: str
) -> None:
    finding = unforced_finding(forced, "no plugin", why_not_stepwise)
    assert (finding.level, finding.code) == (level, code)
    assert "outputs cannot be forced (no plugin)" in finding.message
    assert finding.message.endswith(words)
