"""What follows from the parts of an answer."""

from __future__ import annotations

import pytest

from kveval.engines.client.answer import EngineAnswer


def test_times_count_tokens_and_not_chunks() -> None:
    answer = EngineAnswer(token_ms=[10.0, 20.0, 50.0], chunk_tokens=[1, 2, 2])
    assert (answer.ttft_ms, answer.itl_ms, answer.output_tokens) == (10.0, 10.0, 5)


@pytest.mark.parametrize(("token_ms", "chunk_tokens"), [([], []), ([7.0], [1]), ([7.0], [3])])
def test_without_a_second_chunk_there_is_no_gap(token_ms: list[float], chunk_tokens: list[int]) -> None:
    answer = EngineAnswer(token_ms=token_ms, chunk_tokens=chunk_tokens)
    assert answer.itl_ms is None
    assert answer.ttft_ms == (7.0 if token_ms else None)


def test_the_servers_count_stands_in_for_chunks_that_did_not_come_one_by_one() -> None:
    assert EngineAnswer(completion_tokens=9).output_tokens == 9
    assert EngineAnswer().output_tokens == 0


@pytest.mark.parametrize(
    ("kind", "is_refusal", "is_server_failure"),
    [
        (None, False, False),
        ("http_401", True, True),
        ("http_403", True, True),
        ("other_model", True, True),
        ("http_500", False, True),
        ("timeout", False, True),
        ("broken_stream", False, True),
        ("bad_request", False, False),
        ("non_finite", False, False),
    ],
)
def test_who_is_to_blame(kind: str | None, is_refusal: bool, is_server_failure: bool) -> None:
    answer = EngineAnswer(error_kind=kind)
    assert (answer.is_refusal, answer.is_server_failure) == (is_refusal, is_server_failure)
