"""A report as a browser reads it."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from kveval.report.html.report import build_report


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails on tags that are closed but not open."""

    VOID = frozenset({"meta", "br", "line", "circle", "rect", "path", "link", "img", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())


def page_of(path: Path) -> tuple[str, Page]:
    text = build_report(path).read_text(encoding="utf-8")
    return text, Page(text)
