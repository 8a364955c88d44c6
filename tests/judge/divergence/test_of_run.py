"""A run's readings become one row per variant and kind of text, and what cannot be compared is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.divergences import KEPT, add_divergence
from support.make_run import GOOD, make_run, make_samples, scored

from kveval.errors import RunDirectoryError
from kveval.judge.divergence.of_run import VariantDivergence, divergences
from kveval.judge.run_data import load_run
from kveval.run.divergence import DivergenceFolder, ids_digest


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(
        tmp_path / "run",
        samples=make_samples(haystacks=3, questions=2),
        answers={**GOOD, "bf16-aa": scored(0.9)},
        variants={"bf16-aa": {"role": "aa", "of": "bf16"}},
    )


def found(run: Path) -> dict[str, VariantDivergence]:
    return {one.variant: one for one in divergences(load_run(run))}


def test_a_run_without_readings_has_none(run: Path) -> None:
    assert divergences(load_run(run)) == []


def test_a_variant_that_moves_stands_beside_the_noise(run: Path) -> None:
    add_divergence(run, {"same": 0.2, "bf16-aa": 0.0})
    moved, aa = found(run)["same"], found(run)["bf16-aa"]
    assert (moved.role, aa.role) == ("candidate", "aa")
    assert moved.summary is not None
    assert aa.summary is not None
    assert (moved.planned, moved.compared, moved.broken, moved.kept) == (8, 8, 0, KEPT)
    assert moved.summary.kld_mean.value > 0.005
    assert moved.summary.kld_mean.se is not None
    assert aa.summary.kld_mean.value == aa.summary.kld_max == 0
    assert aa.summary.same_top.value == aa.summary.ppl_ratio.value == 1
    assert [length for length, _ in moved.by_length] == [2048, 8192]
    assert sum(summary.tokens for _, summary in moved.by_length) == moved.summary.tokens == 800
    assert [one.first for one in moved.by_position] == [1, 17, 65]
    assert moved.seconds_per_1000 == pytest.approx(5.0)
    assert moved.bytes_per_token is not None
    assert 0 < moved.bytes_per_token < 8 * KEPT + 40


def test_divergence_that_accumulates_is_told_from_one_that_does_not(run: Path) -> None:
    add_divergence(run, {"same": 0.1}, growth=3.0)
    growing = found(run)["same"].growth
    assert growing is not None
    assert growing.word == "grows"


def test_kinds_of_text_are_never_mixed(run: Path) -> None:
    add_divergence(run, {"same": 0.1})
    add_divergence(run, {"same": 0.4}, kind="text", texts=2)
    outputs, texts = (one for one in divergences(load_run(run)) if one.variant == "same")
    assert (outputs.kind, outputs.planned, texts.kind, texts.planned) == ("output", 8, "text", 2)
    assert outputs.summary is not None
    assert texts.summary is not None
    assert texts.summary.kld_mean.value > 4 * outputs.summary.kld_mean.value


def test_missing_and_broken_readings_are_counted_and_the_rest_is_compared(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.1})
    files = [run / "divergence" / "same" / f"{row.text_id}.npz" for row in rows]
    files[0].unlink()
    files[1].write_bytes(b"no")
    (run / "divergence" / "bf16" / files[2].name).write_bytes(b"no")
    one = found(run)["same"]
    assert (one.planned, one.compared, one.broken) == (8, 5, 2)
    assert one.summary is not None
    assert one.summary.clusters == 5


def test_readings_of_other_tokens_are_never_compared(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.1})
    folder = DivergenceFolder(run)
    theirs = folder.read("same", rows[0].text_id)
    assert theirs is not None
    other = ids_digest(theirs.token_ids, np.zeros((1, 1), np.int32))
    folder.write("same", rows[0].text_id, replace(theirs, ids_sha256=other))
    fewer = replace(theirs, kept_ids=theirs.kept_ids[:, 1:], kept_logprobs=theirs.kept_logprobs[:, 1:])
    folder.write("same", rows[1].text_id, replace(fewer, ids_sha256=theirs.ids_sha256))
    one = found(run)["same"]
    assert (one.compared, one.broken) == (6, 2)


def test_a_variant_whose_logits_are_no_numbers_has_no_figures(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.1})
    folder = DivergenceFolder(run)
    for row in rows:
        theirs = folder.read("same", row.text_id)
        assert theirs is not None
        nothing = np.full_like(theirs.kept_logprobs, np.nan)
        folder.write("same", row.text_id, replace(theirs, kept_logprobs=nothing))
    one = found(run)["same"]
    assert (one.compared, one.summary, one.growth, one.by_position, one.by_length) == (8, None, None, (), ())


def test_a_broken_list_of_texts_is_named(run: Path) -> None:
    add_divergence(run, {"same": 0.1})
    (run / "divergence" / "texts.json").write_text("[]")
    with pytest.raises(RunDirectoryError, match=r"texts\.json"):
        divergences(load_run(run))
