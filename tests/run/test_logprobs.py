from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kveval.errors import RunDirectoryError
from kveval.run.logprobs import pack_logprobs, unpack_logprobs


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
