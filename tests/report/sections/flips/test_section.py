from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.judge.evidence.flipped import flipped_samples
from kveval.judge.run_data import RunData, load_run
from kveval.report.sections.flips import section as flips


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    samples = make_samples(tasks={"a": "x", "b": "x"}, haystacks=10, questions=5)
    return load_run(make_run(tmp_path / "run", samples=samples, answers={
        "bf16": scored(0.7), "fp8": scored(0.4), "int8": scored(0.75)}))  # fmt: skip


def test_few_of_many_come_from_every_cell_and_are_losses(run: RunData) -> None:
    flipped = list(flipped_samples(run, run.manifest.variants["fp8"]))
    chosen = flips.spread(flipped, 12)
    cells = Counter((flip.task, flip.context_length) for flip in chosen)
    assert set(cells.values()) == {3}
    assert {flip.direction for flip in chosen} == {"lost"}
    assert [flipped.index(flip) for flip in chosen] == sorted(flipped.index(flip) for flip in chosen)


def test_what_is_not_shown_is_counted(run: RunData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flips, "MOST_SHOWN", 20)
    section = flips.flips_section(run)
    assert len(section.shown) == 20
    assert all(count.shown >= min(count.flips, 10) for count in section.counts)
    assert [count.flips for count in section.counts] == [
        len(list(flipped_samples(run, run.manifest.variants[name]))) for name in ("fp8", "int8")
    ]


def test_links_are_unique_and_the_sample_alone_has_one(run: RunData) -> None:
    section = flips.flips_section(run)
    anchors = [view.anchor for view in section.shown]
    assert len(set(anchors)) == len(anchors)
    alone = [view.sample_anchor for view in section.shown if view.sample_anchor]
    assert len(alone) == len(set(alone)) == len({view.flip.sample_id for view in section.shown})


def test_what_lost_answers_have_in_common_is_counted(run: RunData) -> None:
    found = flips.flips_section(run)
    lost = [view for view in found.shown if view.role == "candidate" and view.flip.direction == "lost"]
    outcome = lost[0].flip.candidate_outcome
    assert f"{sum(view.flip.candidate_outcome == outcome for view in lost)} are {outcome}" in found.causes
    assert flips.common_causes(lost[:2]) == []
    assert all(view.expected and view.candidate_said and "\n" not in view.candidate_said for view in lost)
    assert not found.has_controls
