"""A run's readings become one row per variant and kind of text, and what cannot be compared is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.divergences import KEPT, add_divergence
from support.make_run import GOOD, make_run, make_samples, scored

from kveval.errors import RunDirectoryError
from kveval.judge.divergence.estimate import Estimate
from kveval.judge.divergence.of_run import VariantDivergence, divergences
from kveval.judge.divergence.summary import NotFinite
from kveval.judge.run_data import load_run
from kveval.run.directory import RunDirectory
from kveval.run.divergence import DivergenceFolder, DivergenceTexts, ids_digest
from kveval.run.facts import Finding
from kveval.run.storage import to_json


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
    assert (moved.planned, moved.compared, moved.not_compared, moved.kept) == (8, 8, (), KEPT)
    assert moved.summary.kld_mean.value is not None
    assert moved.summary.kld_mean.value > 0.005
    assert moved.summary.kld_mean.se is not None
    assert aa.summary.kld_mean.value == aa.summary.kld_max == 0
    assert aa.summary.same_top.value == aa.summary.ppl_ratio.value == 1
    assert [length for length, _ in moved.by_length] == [2048, 8192]
    assert sum(summary.tokens for _, summary in moved.by_length) == moved.summary.tokens == 800
    assert [one.first for one in moved.by_position] == [1, 17, 65]
    assert moved.seconds_per_1000_tokens == pytest.approx(5.0)
    assert moved.bytes_per_token is not None
    assert moved.baseline_bytes_per_token is not None
    assert 0 < moved.bytes_per_token < moved.baseline_bytes_per_token < 8 * KEPT + 40


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
    less, more = outputs.summary.kld_mean.value, texts.summary.kld_mean.value
    assert less is not None
    assert more is not None
    assert more > 4 * less


def test_the_answer_is_told_from_what_follows_it(run: Path) -> None:
    directory = RunDirectory(run)
    answers = {record.sample_id: record for record in directory.records("bf16")}
    first, second, third = list(answers)[:3]
    add_divergence(run, {"same": 0.1}, texts=3, sources=(first, second, third))
    without = found(run)["same"]
    assert without.summary is not None
    assert (without.answer, without.after_answer) == (None, None)

    folder = DivergenceFolder(run)
    written = [reading.token_ids.tolist() for row in folder.texts() if (reading := folder.read("bf16", row.text_id))]
    endings = ((first, written[0][:10], "stop"), (second, written[1][:20], "length"), (third, [-1, -2], "stop"))
    changed = {
        sample_id: answers[sample_id].model_copy(update={"output_token_ids": ids, "finish_reason": reason})
        for sample_id, ids, reason in endings
    }
    lines = [to_json({**answers, **changed}[sample_id]) + "\n" for sample_id in answers]
    directory.records_path("bf16").write_text("".join(lines))
    one = found(run)["same"]
    assert one.answer is not None
    assert one.after_answer is not None
    assert (one.answer.tokens, one.answer.clusters) == (30, 2)
    assert (one.after_answer.tokens, one.after_answer.clusters) == (90, 1)


def test_missing_and_broken_readings_are_counted_and_the_rest_is_compared(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.1})
    files = [run / "divergence" / "same" / f"{row.text_id}.npz" for row in rows]
    files[0].unlink()
    files[1].write_bytes(b"no")
    (run / "divergence" / "bf16" / files[2].name).write_bytes(b"no")
    one = found(run)["same"]
    assert (one.planned, one.compared) == (8, 5)
    assert {why.split(";")[0]: count for why, count in one.not_compared} == {
        "same: outputs cannot be forced on its server": 1,
        "the file of same is broken": 1,
        "the file of bf16 is broken": 1,
    }
    assert one.summary is not None
    assert one.summary.clusters == 5


def test_readings_of_other_tokens_are_never_compared(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.1})
    folder = DivergenceFolder(run)
    theirs = folder.read("same", rows[0].text_id)
    assert theirs is not None
    other = ids_digest(theirs.token_ids, np.zeros((1, 1), np.int32))
    folder.write("same", rows[0].text_id, replace(theirs, ids_sha256=other))
    fewer = replace(
        theirs,
        kept_ids=theirs.kept_ids[:, 1:],
        kept_logprobs=theirs.kept_logprobs[:, 1:],
        tail_logprobs=np.logaddexp(theirs.tail_logprobs, theirs.kept_logprobs[:, 0]),
    )
    folder.write("same", rows[1].text_id, replace(fewer, ids_sha256=theirs.ids_sha256))
    without_ids = folder.read("same", rows[2].text_id)
    assert without_ids is not None
    folder.write("bf16", rows[2].text_id, without_ids)
    one = found(run)["same"]
    assert one.compared == 5
    assert [count for _, count in one.not_compared] == [3]
    assert one.not_compared[0][0].startswith("same was read at other tokens than bf16;")


def test_a_text_of_another_length_than_the_list_says_is_not_compared(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.1})
    changed = [row.model_copy(update={"tokens": 99}) if row is rows[0] else row for row in rows]
    DivergenceFolder(run).write_texts(DivergenceTexts(texts=tuple(changed)))
    assert found(run)["same"].compared == 7


def test_why_a_text_was_not_read_is_kept_until_it_is(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.1})
    folder = DivergenceFolder(run)
    theirs = folder.read("same", rows[0].text_id)
    assert theirs is not None
    (run / "divergence" / "same" / f"{rows[0].text_id}.npz").unlink()
    folder.write_failure("same", rows[0].text_id, "the engine\nwrote 'a'")
    assert found(run)["same"].not_compared == (("same: the engine wrote 'a'", 1),)
    folder.write("same", rows[0].text_id, theirs)
    assert found(run)["same"].not_compared == ()
    assert folder.failure("same", rows[0].text_id) is None


def test_a_server_that_is_not_forced_is_the_reason(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.1})
    for row in rows:
        (run / "divergence" / "same" / f"{row.text_id}.npz").unlink()
    directory = RunDirectory(run)
    manifest = directory.read_manifest()
    finding = Finding.info("no_forced_decode", "no")
    facts = manifest.variants["same"].facts.model_copy(update={"version": "1", "forced_decode": None})
    assert facts.is_established
    same = manifest.variants["same"].model_copy(update={"facts": facts, "findings": [finding]})
    directory.write_manifest(manifest.model_copy(update={"variants": {**manifest.variants, "same": same}}))
    why = "same: outputs cannot be forced on its server (finding no_forced_decode)"
    assert found(run)["same"].not_compared == ((why, 8),)


def test_a_variant_whose_logits_are_no_numbers_has_no_mean(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.1, "bf16-aa": 0.1})
    folder = DivergenceFolder(run)
    theirs = folder.read("same", rows[0].text_id)
    assert theirs is not None
    kept, own = theirs.kept_logprobs.copy(), theirs.logprobs.copy()
    kept[3], own[3] = np.nan, np.nan
    folder.write("same", rows[0].text_id, replace(theirs, kept_logprobs=kept, logprobs=own))
    one = found(run)["same"]
    assert one.summary is not None
    assert one.summary.kld_mean == Estimate(None, None, "not finite: 1 token")
    assert one.summary.not_finite == NotFinite(infinite=0, variant=1, baseline=0)
    assert [part.kld_mean.value is None for part in one.by_position] == [True, False, False]
    assert [part.kld_mean.value is None for _, part in one.by_length] == [True, False]
    assert one.growth is not None
    assert (one.growth.word, one.growth.reason) == (None, "not finite: 1 token")


def test_a_baseline_whose_logits_are_no_numbers_takes_every_mean_away(run: Path) -> None:
    rows = add_divergence(run, {"same": 0.1})
    folder = DivergenceFolder(run)
    ours = folder.read("bf16", rows[0].text_id)
    assert ours is not None
    kept, own, tail = ours.kept_logprobs.copy(), ours.logprobs.copy(), ours.tail_logprobs.copy()
    kept[3], own[3], tail[3] = np.nan, np.nan, np.nan
    folder.write("bf16", rows[0].text_id, replace(ours, kept_logprobs=kept, logprobs=own, tail_logprobs=tail))
    one = found(run)["same"]
    assert one.summary is not None
    assert one.summary.kld_mean.value is None
    assert one.summary.tail_mean is None
    assert one.summary.not_finite == NotFinite(infinite=0, variant=0, baseline=1)


def test_a_broken_list_of_texts_is_named(run: Path) -> None:
    add_divergence(run, {"same": 0.1})
    (run / "divergence" / "texts.json").write_text("[]")
    with pytest.raises(RunDirectoryError, match=r"texts\.json"):
        divergences(load_run(run))
