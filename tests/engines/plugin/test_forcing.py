"""What kveval and its processor inside vLLM agree on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kveval.engines.plugin.forcing import ForcedOutput, ForcedResult

NAME = "0" * 32


def test_a_request_carries_what_is_forced() -> None:
    forced = ForcedOutput([5, 7], 0.6, top_k=3, read_ids=NAME)
    assert ForcedOutput.from_xargs(forced.xargs()) == forced


@pytest.mark.parametrize("xargs", [None, {}, {"session_id": "x"}])
def test_other_requests_force_nothing(xargs: dict[str, Any] | None) -> None:
    assert ForcedOutput.from_xargs(xargs) is None


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"kveval_targets": []}, "kveval_targets"),
        ({"kveval_targets": "12"}, "kveval_targets"),
        ({"kveval_targets": [1, -1]}, "kveval_targets"),
        ({"kveval_targets": [1.5]}, "kveval_targets"),
        ({"kveval_temperature": 0}, "kveval_temperature"),
        ({"kveval_temperature": "hot"}, "kveval_temperature"),
        ({"kveval_temperature": float("nan")}, "kveval_temperature"),
        ({"kveval_top_k": -1}, "kveval_top_k"),
        ({"kveval_top_k": "many"}, "kveval_top_k"),
        ({"kveval_result": "../" + NAME}, "kveval_result"),
        ({"kveval_result": NAME + "/x"}, "kveval_result"),
        ({"kveval_result": 7}, "kveval_result"),
        ({"kveval_result": None}, "kveval_result"),
        ({"kveval_read_ids": "/etc/passwd"}, "kveval_read_ids"),
    ],
)
def test_a_request_that_cannot_be_forced_is_refused_by_its_key(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(ValueError, match=key):
        ForcedOutput.from_xargs(ForcedOutput([1, 2], name=NAME).xargs() | changes)


def test_a_request_without_a_result_name_is_refused() -> None:
    xargs = ForcedOutput([1], name=NAME).xargs()
    del xargs["kveval_result"]
    with pytest.raises(ValueError, match="kveval_result"):
        ForcedOutput.from_xargs(xargs)


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    result = ForcedResult(
        np.array([-0.5, -np.inf, np.nan], np.float32), np.array([1, 2, 3], np.int32),
        tail_logprobs=np.array([-1.0, -2.0, -3.0], np.float32),
    )  # fmt: skip
    result.write(tmp_path, NAME)
    back = ForcedResult.read(tmp_path, NAME)
    np.testing.assert_array_equal(back.logprobs, result.logprobs)
    np.testing.assert_array_equal(back.tail_logprobs, result.tail_logprobs)
    assert back.top_ids is None
    ForcedResult.remove(tmp_path, NAME)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_result_is_an_error_and_a_broken_one_too(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=NAME):
        ForcedResult.read(tmp_path, NAME)
    (tmp_path / f"{NAME}.npz").write_bytes(b"not a zip file")
    with pytest.raises(ValueError, match="allow_pickle"):
        ForcedResult.read(tmp_path, NAME)


def test_a_result_that_is_cut_is_broken(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.npz"
    ForcedResult(np.zeros(3, np.float32), np.zeros(3, np.int32)).write(tmp_path, NAME)
    whole = path.read_bytes()
    for left in (b"", whole[:100]):
        path.write_bytes(left)
        with pytest.raises(ValueError, match="is cut or lacks an array"):
            ForcedResult.read(tmp_path, NAME)
    np.savez(path, logprobs=np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="is cut or lacks an array"):
        ForcedResult.read(tmp_path, NAME)
