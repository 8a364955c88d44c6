"""A folder in kveval/report/sections/ is a section of the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report import sections
from kveval.report.html.report import build_report, show_sections
from kveval.report.section import find_sections

FOLDER = Path(sections.__path__[0])


def test_every_folder_is_a_section_with_a_template() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert set(find_sections()) == folders
    assert {path.parent.name for path in FOLDER.glob("*/template.html.j2")} == folders


def test_sections_come_in_the_order_of_their_positions() -> None:
    found = find_sections()
    positions = [section.position for section in found.values()]
    assert positions == sorted(set(positions))
    assert {section.part_of for section in found.values()} <= {None, *found}


def test_a_new_folder_is_shown_without_any_other_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sections" / "counts"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "section.py").write_text(
        "from kveval.report.section import Section\n"
        "SECTION = Section('Counts', 15, lambda run, _: {'samples': len(run.samples)})\n"
    )
    (folder / "template.html.j2").write_text("<p>{{ content.samples }} samples</p>\n")
    monkeypatch.setattr(sections, "__path__", [*sections.__path__, str(tmp_path / "sections")])
    run = load_run(make_run(tmp_path / "run", samples=make_samples(haystacks=2), answers={"bf16": scored(1)}))
    shown = show_sections(run, judge_run(run))
    assert [section.name for section in shown][:3] == ["answer", "counts", "where"]
    page = build_report(run.path).read_text(encoding="utf-8")
    assert '<li><a href="#counts">Counts</a></li>' in page
    assert "<p>40 samples</p>" in page


def test_a_section_without_content_is_left_out(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "run", samples=make_samples(haystacks=2), answers={"bf16": scored(1)}))
    names = {part.name for section in show_sections(run, judge_run(run)) for part in section.parts}
    assert names == {"measures", "outcomes"}
