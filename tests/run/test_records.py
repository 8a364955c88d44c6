from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pydantic import ValidationError
from support.stored import RECORD

from kveval.errors import RunDirectoryError
from kveval.run.records import Record, ids_sha256, pack_logprobs, too_few_answers, unpack_logprobs


def test_ids_hash_in_any_order() -> None:
    assert ids_sha256(["b", "a"]) == ids_sha256(["a", "b"])
    assert ids_sha256(["a"]) != ids_sha256(["a", "b"])


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "great"},
        {"score": 1.1},
        {"score": float("nan")},
        {"total_ms": float("inf")},
        {"metrics": {"ruler": float("nan")}},
        {"context_length": 0},
        {"extra": 1},
    ],
)
def test_records_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    Record.model_validate(RECORD)
    with pytest.raises(ValidationError):
        Record.model_validate(RECORD | change)


@given(
    shape=st.tuples(st.integers(0, 40), st.integers(1, 20)),
    data=st.data(),
)
def test_logprobs_survive_packing(shape: tuple[int, int], data: st.DataObject) -> None:
    ids = data.draw(hnp.arrays(np.int32, shape))
    values = data.draw(hnp.arrays(np.float32, shape, elements=st.floats(-9999, 0, width=32)))
    back_ids, back_values = unpack_logprobs(pack_logprobs(ids, values))
    np.testing.assert_array_equal(back_ids, ids)
    np.testing.assert_array_equal(back_values, values)
    assert back_ids.dtype == np.int32
    assert back_values.dtype == np.float32


@pytest.mark.parametrize(
    "packed",
    [
        "no base64!",
        base64.b64encode(b"no zlib").decode(),
        base64.b64encode(zlib.compress(b"")).decode(),
        base64.b64encode(zlib.compress(b"\x01\x00\x00\x00")).decode(),
        base64.b64encode(zlib.compress(b"\xff\xff\xff\xff\x14\x00\x00\x00")).decode(),
        pack_logprobs(np.zeros((3, 2), np.int32), np.zeros((3, 2), np.float32))[:-8],
    ],
)
def test_broken_packings_are_named(packed: str) -> None:
    with pytest.raises(RunDirectoryError, match="a record's logprobs are broken"):
        unpack_logprobs(packed)


def test_logprobs_that_swell_without_bound_are_refused() -> None:
    bomb = base64.b64encode(zlib.compress(bytes(1 << 28), 9)).decode("ascii")
    with pytest.raises(RunDirectoryError, match="larger than 67108864 bytes"):
        unpack_logprobs(bomb)


@pytest.mark.parametrize(("unanswered", "most_share"), [(0, 0.0), (1, 0.02), (50, 0.5)])
def test_few_unanswered_questions_are_no_problem(unanswered: int, most_share: float) -> None:
    assert too_few_answers(unanswered, 100, most_share, "HTTP 500") is None


def test_more_are_counted_with_the_limit_and_the_first_error() -> None:
    assert too_few_answers(30, 60, 0.02, "HTTP 400: sampler assert") == (
        "30 of 60 questions have no answer (50.0%, and the limit is 2.0%); the first error: HTTP 400: sampler assert"
    )
    assert str(too_few_answers(1, 60, 0.0, None)).endswith("the limit is 0.0%)")
