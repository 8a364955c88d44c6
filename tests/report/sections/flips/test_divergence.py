from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest

from kveval.report.sections.flips.divergence import TokenTexts, divergence
from kveval.run.manifest import Manifest, VariantRun
from kveval.run.records import pack_logprobs


def packed(*rows: dict[int, float]) -> str:
    ids = np.array([list(row) for row in rows], dtype=np.int32)
    logprobs = np.array([[math.log(p) for p in row.values()] for row in rows], dtype=np.float32)
    return pack_logprobs(ids, logprobs)


def manifest(**baseline: object) -> Manifest:
    run = VariantRun(name="bf16", role="baseline", spec=baseline)
    return Manifest(
        kveval_version="0", run_id="r", created="", config={}, inputs={}, seeds={}, sampling={}, samples=0,
        samples_sha256="", baseline="bf16", variants={"bf16": run}, versions={}, machine={},
    )  # fmt: skip


def test_the_first_token_that_differs_with_both_sides_probabilities() -> None:
    ours = ([5, 7, 9], packed({5: 0.9, 1: 0.1}, {7: 0.6, 8: 0.3}, {9: 0.5, 1: 0.5}))
    theirs = ([5, 8], packed({5: 0.9, 1: 0.1}, {8: 0.5, 7: 0.4}))
    found = divergence(ours, theirs, TokenTexts(manifest()))
    assert found is not None
    assert found.position == 2
    assert [(row.token_id, row.chosen_by, row.text) for row in found.alternatives] == [
        (7, "baseline", None),
        (8, "candidate", None),
    ]
    assert found.alternatives[0].baseline_p == pytest.approx(0.6)
    assert found.alternatives[0].candidate_p == pytest.approx(0.4)


def test_an_output_that_goes_on_where_the_other_ended() -> None:
    found = divergence(([5], None), ([5, 8], None), TokenTexts(manifest()))
    assert found is not None
    assert (found.position, found.alternatives) == (2, ())


@pytest.mark.parametrize(("ours", "theirs"), [([], [1]), ([1], []), ([1, 2], [1, 2])])
def test_nothing_to_tell(ours: list[int], theirs: list[int]) -> None:
    assert divergence((ours, None), (theirs, None), TokenTexts(manifest())) is None


def test_token_texts_only_from_the_tokenizer_of_the_run(tmp_path: Path) -> None:
    tokenizer = {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"hello": 0}, "unk_token": "hello"},
                 "added_tokens": []}  # fmt: skip
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(tokenizer))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    run = manifest(model=str(tmp_path))
    assert TokenTexts(run.model_copy(update={"inputs": {"model/tokenizer.json": digest}})).text(0) == "hello"
    assert TokenTexts(run).text(0) is None
    path.unlink()
    assert TokenTexts(run.model_copy(update={"inputs": {"model/tokenizer.json": digest}})).text(0) is None
