"""Drift against scipy's divergence of whole distributions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax
from scipy.stats import entropy

from kveval.judge.evidence.drift import drift_positions, kl_lower_bound, ratio_to_noise, shared_positions, summarize
from kveval.run.records import pack_logprobs

VOCABULARY = 200


def top(logprobs: np.ndarray, k: int = 20) -> tuple[np.ndarray, np.ndarray]:
    ids = np.argsort(-logprobs, axis=1)[:, :k].astype(np.int32)
    return ids, np.take_along_axis(logprobs, ids, axis=1).astype(np.float32)


def distributions(seed: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=3, size=(50, VOCABULARY))
    return log_softmax(logits, axis=1), log_softmax(logits + noise * rng.normal(size=logits.shape), axis=1)


def test_equals_scipy_when_every_token_is_listed() -> None:
    p, q = distributions(1, 0.5)
    found = kl_lower_bound(*top(p, VOCABULARY), *top(q, VOCABULARY))
    assert found == pytest.approx(entropy(np.exp(p), np.exp(q), axis=1), abs=1e-4)


@pytest.mark.parametrize("noise", [0.01, 0.5, 3.0])
def test_top_20_is_a_lower_bound(noise: float) -> None:
    p, q = distributions(2, noise)
    found = kl_lower_bound(*top(p), *top(q))
    assert (found <= entropy(np.exp(p), np.exp(q), axis=1) + 1e-5).all()
    assert (found >= 0).all()


def test_absent_alternatives_and_minus_infinity_join_the_rest() -> None:
    p_ids, q_ids = np.array([[1, 2, -1]], dtype=np.int32), np.array([[1, 2, 3]], dtype=np.int32)
    p = np.array([[np.log(0.5), np.log(0.5), 0]], dtype=np.float32)
    q = np.array([[np.log(0.5), -9999.0, np.log(0.5)]], dtype=np.float32)
    found = kl_lower_bound(p_ids, p, q_ids, q)
    assert np.isfinite(found).all()
    assert found[0] == pytest.approx(0.0, abs=1e-6)


def test_positions_end_where_the_outputs_part() -> None:
    assert shared_positions([1, 2, 3], [1, 2, 3]) == 3
    assert shared_positions([1, 2, 3], [1, 9, 3]) == 2
    assert shared_positions([1, 2, 3], [1]) == 1
    assert shared_positions([5], [6]) == 1
    assert shared_positions([], [6]) == 0


def records(tokens: list[list[int]], logprobs: list[np.ndarray | None]) -> pd.DataFrame:
    packed = [None if p is None else pack_logprobs(*top(p)) for p in logprobs]
    return pd.DataFrame({"output_token_ids": tokens, "logprobs": packed}, index=[f"s{i}" for i in range(len(tokens))])


def test_table_and_summary() -> None:
    p, q = distributions(3, 0.3)
    ours = records([p[:4].argmax(1).tolist(), p[4:8].argmax(1).tolist(), [1]], [p[:4], p[4:8], None])
    their_tokens = p[:4].argmax(1).tolist()
    their_tokens[1] += 1
    theirs = records([their_tokens, p[4:8].argmax(1).tolist(), [1]], [q[:4], q[4:8], None])
    table = drift_positions(ours, theirs, ["s0", "s1", "s2", "elsewhere"])
    assert list(table["sample_id"]) == ["s0"] * 2 + ["s1"] * 4
    assert list(table["position"]) == [0, 1, 0, 1, 2, 3]
    chosen = [0, 1, 4, 5, 6, 7]
    assert list(table["same_top1"]) == list((p.argmax(1) == q.argmax(1))[chosen])
    assert table["baseline_p"].to_numpy() == pytest.approx(np.exp(p.max(1))[chosen], rel=1e-5)

    drift = summarize(table, pd.Series({"s0": "a", "s1": "b"}))
    assert drift is not None
    assert (drift.samples, drift.positions) == (2, 6)
    assert drift.kl_mean == pytest.approx(table["kl"].mean())
    assert drift.kl_se is not None
    assert ratio_to_noise(drift, drift) == 1
    assert ratio_to_noise(drift, None) is None


def test_nothing_to_compare() -> None:
    empty = drift_positions(records([[1]], [None]), records([[1]], [None]), ["s0"])
    assert empty.empty
    assert summarize(empty, pd.Series({"s0": "a"})) is None
