"""What a section of the HTML report is, and how the sections are found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.run_data import RunData
from kveval.report import sections as folders


@dataclass(frozen=True, slots=True)
class Section:
    """Describes one section of the HTML report.

    To add a section, make a folder in ``kveval/report/sections/`` with two files: ``section.py``, which assigns a
    `Section` to ``SECTION``, and ``template.html.j2``, which shows the value of `content` under the name ``content``.
    Nothing else lists the sections.

    Attributes:
        position: where it stands: the page shows sections from the lowest position to the highest.
        content: returns what the template shows, as plain data. None leaves the section out.
        part_of: the folder of the section that shows this one under its own content. None for a section of the page.
        link: the words in the page's navigation. None uses `title`.
    """

    title: str
    position: int
    content: Callable[[RunData, Judgement], object | None]
    part_of: str | None = None
    link: str | None = None


def find_sections() -> dict[str, Section]:
    """Returns every section by the name of its folder, in the order of the page."""
    found = {
        folder.name: importlib.import_module(f"{folders.__name__}.{folder.name}.section").SECTION
        for folder in pkgutil.iter_modules(folders.__path__)
    }
    return dict(sorted(found.items(), key=lambda item: item[1].position))
