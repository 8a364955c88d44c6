"""Builds the report of one run: one self-contained HTML file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kveval.config.judge import Policy
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.run_data import RunData, load_run
from kveval.report.html.page import render
from kveval.report.overview import overview
from kveval.report.section import Section, find_sections
from kveval.run.storage import write_atomically


@dataclass(frozen=True, slots=True)
class ShownSection:
    """A section with the content of one run. `name` is its folder, and its anchor in the page."""

    name: str
    section: Section
    content: object
    parts: tuple[ShownSection, ...]

    @property
    def template(self) -> str:
        return f"{self.name}/template.html.j2"


def build_report(run_dir: Path, out: Path | None = None, policy: Policy | None = None) -> Path:
    """Writes the report of a run, finished or not, to `out` (default ``RUN/report.html``), and returns its path.

    Raises:
        RunDirectoryError: `run_dir` is not a run directory, or it is broken.
    """
    run = load_run(run_dir)
    judgement = judge_run(run, policy)
    page = render(
        "report.html.j2",
        name=run_dir.resolve().name,
        manifest=run.manifest,
        policy=judgement.policy,
        void=[problem.message for problem in judgement.problems if problem.is_void],
        variants=run.baseline_first,
        overview=overview(run, judgement),
        sections=show_sections(run, judgement),
    )
    path = run_dir / "report.html" if out is None else out
    write_atomically(path, page)
    return path


def show_sections(run: RunData, judgement: Judgement, part_of: str | None = None) -> tuple[ShownSection, ...]:
    """Returns the sections that have something to show, each with its parts."""
    return tuple(
        ShownSection(name, section, content, show_sections(run, judgement, name))
        for name, section in find_sections().items()
        if section.part_of == part_of and (content := section.content(run, judgement)) is not None
    )
