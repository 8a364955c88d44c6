from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from support.samples import sample
from support.stored import RECORD

from kveval.measure.haystacks import HaystackSamples, group_by_haystack, spread_over_time, tokens_to_compute
from kveval.measure.watch.blocks import Blocks, sentinel_pool, sentinels_of
from kveval.run.records import Record
from kveval.tasks.sample import Sample

pytestmark = pytest.mark.sentinels


def haystacks(count: int, questions: int = 8, *, shared: int = 100) -> list[HaystackSamples]:
    samples = [sample(f"{shared}-{number}", one, shared=shared) for number in range(count) for one in range(questions)]
    return spread_over_time(group_by_haystack(samples))


def tokens(asked: Iterable[HaystackSamples]) -> int:
    return sum(tokens_to_compute(one for haystack in asked for one in haystack.samples).values())


def record(one: Sample, **changes: Any) -> Record:
    return Record.model_validate(RECORD | {"sample_id": one.sample_id, "outcome": "correct"} | changes)


def asked_again(asked: list[HaystackSamples], wrong: frozenset[str] = frozenset()) -> dict[str, list[int]]:
    """After how many answers each question is asked again, and (under ``look``) the server is looked at."""
    blocks, seen = Blocks(asked, tokens(asked), []), dict[str, list[int]]()
    for haystack in asked:
        for one in haystack.samples:
            outcome = "wrong" if one.sample_id in wrong else "correct"
            if blocks.answer(record(one, outcome=outcome)):
                seen.setdefault("look", []).append(blocks.answered)
            while sentinel := blocks.sentinel():
                seen.setdefault(sentinel.samples[0].sample_id, []).append(blocks.answered)
    assert blocks.is_over
    return seen


@pytest.mark.parametrize(
    ("count", "questions", "sentinels"),
    [(1, 1, 1), (1, 2, 2), (3, 2, 3), (25, 8, 3), (150, 8, 15), (1000, 8, 103), (400, 1, 8)],
)
def test_few_questions_are_asked_again_and_at_least_three(count: int, questions: int, sentinels: int) -> None:
    asked = haystacks(count, questions)
    assert sentinels_of(asked, tokens(asked)) == sentinels
    seen = asked_again(asked)
    looks = seen.pop("look")
    assert sum(len(times) for times in seen.values()) == sentinels
    assert looks[-1] == count * questions
    assert max(max(times) for times in seen.values()) == count * questions


def test_questions_asked_again_cost_few_tokens_where_every_one_fills_the_cache_again() -> None:
    asked = haystacks(100, 64, shared=100_000)
    again = sentinels_of(asked, tokens(asked))
    assert again == 5
    assert again * 100_000 <= 0.05 * tokens(asked)


def test_the_server_is_looked_at_about_a_dozen_times_and_at_the_end() -> None:
    looks = asked_again(haystacks(25))["look"]
    assert looks == [-(-200 * number // 12) for number in range(1, 13)]


def test_the_shortest_contexts_are_asked_again_from_every_task() -> None:
    long, short = haystacks(3, shared=900), haystacks(3, shared=100)
    pool = sentinel_pool(spread_over_time([*long, *short]))
    assert {one.context_length for one in pool} == {110}
    assert len(pool) == len({one.sample_id for one in pool}) == 6


def test_a_question_that_was_wrong_is_not_asked_again_while_others_were_right() -> None:
    asked = haystacks(25)
    pool = sentinel_pool(asked)
    wrong = frozenset(one.sample_id for one in pool[:4])
    seen = asked_again(asked, wrong)
    assert seen.keys() == {"look", *(one.sample_id for one in pool[4:])}
    everything = frozenset(one.sample_id for haystack in asked for one in haystack.samples)
    assert len(asked_again(asked, everything)) > 2


def test_a_resumed_run_goes_on_with_the_blocks_it_has() -> None:
    asked = haystacks(25)
    first, rest = [one for h in asked[:13] for one in h.samples], [one for h in asked[13:] for one in h.samples]
    blocks = Blocks(asked, tokens(asked), [record(one) for one in first])
    assert blocks.answered == 104
    assert blocks.sentinel() is None
    looks = [blocks.answered for one in rest if blocks.answer(record(one))]
    assert looks == [117, 134, 150, 167, 184, 200]
    sentinels = []
    while sentinel := blocks.sentinel():
        sentinels.append(sentinel.samples[0])
    assert len(sentinels) == 2  # of 3; the first was asked before
    assert {one.sample_id for one in sentinels} <= {one.sample_id for one in first}
